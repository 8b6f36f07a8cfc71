#pragma once

namespace weir::inline v0_2::detail {

/// An object that must react to the end of its execution context.
class context_user {
public:
    /// Handles the destruction of the context: after this call nothing may be posted to it.
    virtual void context_ends() noexcept = 0;

protected:
    ~context_user() = default;
};

}  // namespace weir::inline v0_2::detail
