#pragma once

namespace weir::detail {

/// What is told that its execution context ends.
class context_user {
public:
    /// The context is being destroyed: nothing may be posted to it after this has returned.
    virtual void context_ends() noexcept = 0;

protected:
    ~context_user() = default;
};

}  // namespace weir::detail
