#pragma once

#include <weir/detail/context_user.hpp>
#include <weir/detail/registry.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/query.hpp>

#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace weir::detail {

/// The executor of an object that may outlive its execution context.
class home_executor {
    using executor = boost::asio::any_io_executor;

public:
    explicit home_executor(executor ex) : home_(std::make_shared<home>()) {
        auto& context = boost::asio::query(ex, boost::asio::execution::context);
        home_->where = std::move(ex);
        home_->entry.emplace(context, std::weak_ptr<context_user>(home_));
    }

    /// Calls `f(executor)`, which posts something or starts a timer. If the context has ended, returns false without
    /// the call. The context does not end during the call.
    template <class F>
    bool use(F f) const {
        std::lock_guard lock(home_->mutex);
        if (!home_->where)
            return false;
        f(std::as_const(*home_->where));
        return true;
    }

private:
    struct home final : context_user {
        void context_ends() noexcept override {
            std::lock_guard lock(mutex);
            where.reset();
        }

        std::mutex mutex;
        std::optional<executor> where;
        std::optional<registry::entry> entry;
    };

    std::shared_ptr<home> home_;
};

}  // namespace weir::detail
