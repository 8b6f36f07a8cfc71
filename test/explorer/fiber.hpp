#pragma once

#include <cstddef>
#include <memory>

namespace explorer {

/// A thread of control with its own stack. It runs only when it is switched to.
class fiber {
public:
    /// The fiber that is running already.
    fiber();

    /// A fiber that calls `body(argument)` when it is first switched to. `body` must not return.
    fiber(void (*body)(void*), void* argument);

    fiber(fiber const&) = delete;
    fiber& operator=(fiber const&) = delete;
    ~fiber();

    /// Continues `other`, until another fiber switches back. Call it on this fiber.
    void switch_to(fiber& other);

private:
    struct parts;
    static void enter(unsigned low, unsigned high);

    std::unique_ptr<parts> parts_;
};

}  // namespace explorer
