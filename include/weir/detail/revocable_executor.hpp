#pragma once

#include <weir/detail/context_user.hpp>
#include <weir/detail/executor_until_end.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace weir::inline v0_2::detail {

/// The executor of an object that may outlive its execution context.
class revocable_executor {
    using executor = boost::asio::any_io_executor;

public:
    explicit revocable_executor(executor ex) : state_(std::make_shared<state>(std::move(ex))) {
        state_->where.attach(state_);
    }

    /// Calls `f(executor)`, which posts something or starts a timer. If the context has ended, returns false without
    /// the call. The context does not end during the call. `f` is called without a lock, since an executor may run code
    /// of the user.
    template <class F>
    bool use(F f) const {
        if (!state_->begin_use())
            return false;
        in_use const here(*state_);
        f(std::as_const(*state_->where));
        return true;
    }

private:
    struct state final : context_user {
        explicit state(executor ex) : where(std::move(ex)) {}

        [[nodiscard]] bool begin_use() {
            std::lock_guard lock(mutex);
            users += has_ended ? 0 : 1;
            return !has_ended;
        }
        void end_use() noexcept {
            std::lock_guard lock(mutex);
            if (--users == 0)
                nobody_uses.notify_all();
        }
        void context_ends() noexcept override {
            std::optional<executor> last;  // destroyed without the lock
            std::unique_lock lock(mutex);
            has_ended = true;
            nobody_uses.wait(lock, [this] { return users == 0; });
            last = where.end();
        }

        std::mutex mutex;
        std::condition_variable nobody_uses;
        std::size_t users = 0;
        bool has_ended = false;
        executor_until_end<> where;  // constant while there are users
    };

    class in_use {
    public:
        explicit in_use(state& where) noexcept : state_(where) {}
        in_use(in_use const&) = delete;
        in_use& operator=(in_use const&) = delete;
        ~in_use() { state_.end_use(); }

    private:
        state& state_;
    };

    std::shared_ptr<state> state_;
};

}  // namespace weir::inline v0_2::detail
