#pragma once

#include <cstddef>
#include <memory>

namespace explorer {

/// A thread of control with a stack of its own, which runs when it is switched to and not otherwise.
class fiber {
public:
    /// The one that is running already.
    fiber();

    /// One that calls `body(argument)` when it is first switched to. `body` must not return.
    fiber(void (*body)(void*), void* argument);

    fiber(fiber const&) = delete;
    fiber& operator=(fiber const&) = delete;
    ~fiber();

    /// Goes on with `other`, until somebody switches back. To be called on this fiber.
    void switch_to(fiber& other);

private:
    struct parts;
    static void enter(unsigned low, unsigned high);

    std::unique_ptr<parts> parts_;
};

}  // namespace explorer
