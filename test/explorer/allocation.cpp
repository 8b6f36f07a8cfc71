#include "simulation.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

// Allocations that can be made to fail.
void* operator new(std::size_t size) {
    auto* const p = explorer::simulation::allocation_fails() ? nullptr : std::malloc(size);
    if (!p)
        throw std::bad_alloc();
    return p;
}

void operator delete(void* p) noexcept {
    std::free(p);
}

// Overwrites the memory, so that a use after the end is noticed.
void operator delete(void* p, std::size_t size) noexcept {
    if (p)
        std::memset(p, 0xdd, size);
    asm volatile(""
                 :
                 : "r"(p)
                 // otherwise the compiler would omit the writes, since no code may read them
                 : "memory");
    std::free(p);
}
