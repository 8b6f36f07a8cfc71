#include "fiber.hpp"

#include <cxxabi.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define WEIR_ADDRESS_SANITIZER 1
#include <sanitizer/common_interface_defs.h>
#else
#define WEIR_ADDRESS_SANITIZER 0
#endif

// The headers of libc++ do not declare this function of the ABI.
namespace __cxxabiv1 {
struct __cxa_eh_globals;
extern "C" __cxa_eh_globals* __cxa_get_globals() noexcept;
}  // namespace __cxxabiv1

namespace explorer {
namespace {

constexpr std::size_t stack_size = WEIR_ADDRESS_SANITIZER ? 512 << 10 : 128 << 10;

// The per-thread state of the C++ runtime for exceptions in flight, in the layout of the ABI.
struct exceptions {
    void* caught = nullptr;
    unsigned uncaught = 0;
};

// The fiber that was switched from; the sanitizer needs the position of its stack.
[[maybe_unused]] void const** left_bottom = nullptr;
[[maybe_unused]] std::size_t* left_size = nullptr;

}  // namespace

struct fiber::parts {
    ucontext_t context{};
    exceptions in_flight;
    void* memory = nullptr;
    void const* bottom = nullptr;  // of the stack, and its size
    std::size_t size = 0;
    void* fake_stack = nullptr;  // of the sanitizer
    void (*body)(void*) = nullptr;
    void* argument = nullptr;
};

fiber::fiber() : parts_(std::make_unique<parts>()) {}

fiber::fiber(void (*body)(void*), void* argument) : fiber() {
    auto const page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    auto* const memory = ::mmap(nullptr, stack_size + page, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED || ::mprotect(memory, page, PROT_NONE) != 0)
        throw std::bad_alloc();
    parts_->memory = memory;
    parts_->bottom = static_cast<char*>(memory) + page;
    parts_->size = stack_size;
    parts_->body = body;
    parts_->argument = argument;

    ::getcontext(&parts_->context);
    parts_->context.uc_stack.ss_sp = static_cast<char*>(memory) + page;
    parts_->context.uc_stack.ss_size = stack_size;
    parts_->context.uc_link = nullptr;
    auto const self = reinterpret_cast<std::uintptr_t>(this);
    ::makecontext(&parts_->context, reinterpret_cast<void (*)()>(&fiber::enter), 2,
                  static_cast<unsigned>(self & 0xffffffffU), static_cast<unsigned>(self >> 32));
}

fiber::~fiber() {
    if (parts_->memory)
        ::munmap(parts_->memory, stack_size + static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
}

void fiber::switch_to(fiber& other) {
    auto& in_flight = *reinterpret_cast<exceptions*>(abi::__cxa_get_globals());
    parts_->in_flight = in_flight;
    in_flight = other.parts_->in_flight;
#if WEIR_ADDRESS_SANITIZER
    left_bottom = &parts_->bottom;
    left_size = &parts_->size;
    __sanitizer_start_switch_fiber(&parts_->fake_stack, other.parts_->bottom, other.parts_->size);
#endif
    ::swapcontext(&parts_->context, &other.parts_->context);
#if WEIR_ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(parts_->fake_stack, left_bottom, left_size);
#endif
}

void fiber::enter(unsigned low, unsigned high) {
    auto* const self = reinterpret_cast<fiber*>((static_cast<std::uintptr_t>(high) << 32) | low);
#if WEIR_ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(nullptr, left_bottom, left_size);
#endif
    self->parts_->body(self->parts_->argument);
    std::abort();
}

}  // namespace explorer
