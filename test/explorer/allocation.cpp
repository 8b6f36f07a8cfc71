#include "simulation.hpp"

#include <cstdlib>
#include <cstring>
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

// So that its use after the end is noticed.
void operator delete(void* p, std::size_t size) noexcept {
    if (p)
        std::memset(p, 0xdd, size);
    asm volatile(""
                 :
                 : "r"(p)
                 : "memory");  // or nothing would be written, since nobody may read it
    std::free(p);
}
