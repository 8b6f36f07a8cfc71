#pragma once

#include <weir/detail/context_user.hpp>
#include <weir/detail/registry.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/query.hpp>

#include <memory>
#include <optional>
#include <utility>

namespace weir::inline v0_2::detail {

/// The executor of an object that may outlive its execution context: the object has it until the end of the context. A
/// lock of the object protects it; see `revocable_executor` for an object that must not hold a lock while it uses it.
template <class Executor = boost::asio::any_io_executor>
class executor_until_end {
public:
    explicit executor_until_end(Executor ex) : executor_(std::move(ex)) {}

    /// Causes a call of `user->context_ends()` when the context ends; it must call `end`. Call it once.
    void attach(std::weak_ptr<context_user> user) {
        auto& context = boost::asio::query(*executor_, boost::asio::execution::context);
        entry_.emplace(context, std::move(user));
    }

    [[nodiscard]] bool has_ended() const noexcept { return !executor_; }
    /// Precondition: `!has_ended()`.
    [[nodiscard]] Executor const& operator*() const noexcept { return *executor_; }

    /// Gives the executor up. Returns it, to be destroyed outside the lock; nothing after the first call.
    std::optional<Executor> end() noexcept { return std::exchange(executor_, std::nullopt); }

private:
    std::optional<Executor> executor_;
    std::optional<registry::entry> entry_;
};

}  // namespace weir::inline v0_2::detail
