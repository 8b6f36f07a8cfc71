#include "simulation.hpp"

#include <cstdlib>
#include <new>

// Allocations that fail when they are told to.
void* operator new(std::size_t size) {
    auto* const p = explorer::simulation::allocation_fails() ? nullptr : std::malloc(size);
    if (!p)
        throw std::bad_alloc();
    return p;
}

void operator delete(void* p) noexcept {
    std::free(p);
}

void operator delete(void* p, std::size_t) noexcept {
    std::free(p);
}
