#pragma once

#include <weir/lease.hpp>
#include <weir/policy/stock.hpp>
#include <weir/time.hpp>

#include <memory>
#include <utility>

namespace weir::inline v0_2::detail {

/// Calls `f(stock)` under the lock of the pool's limiter. `f` makes no object available.
template <class Core, class F>
void change_stock(Core& core, F f) noexcept {
    core.modify([&](auto& room) {
        f(room.policy());
        return false;
    });
}

/// A place of the stock that is in use: with an object to be checked, or for an object to be made. The destructor
/// returns it.
template <class T, class Core>
class stock_place {
    using stock = policy::stock;
    using item_type = pool_item<T>;

public:
    /// Takes over a place that was reserved, or that belongs to `unchecked`.
    stock_place(std::shared_ptr<Core> core, stock::item* unchecked) noexcept
        : core_(std::move(core)), item_(static_cast<item_type*>(unchecked)) {}
    stock_place(stock_place&&) noexcept = default;
    stock_place& operator=(stock_place&&) = delete;
    ~stock_place() {
        if (!core_)
            return;
        bool const unchecked = item_ != nullptr;
        item_.reset();
        change_stock(*core_,
                     [unchecked](stock& s) { unchecked ? s.drop_unchecked() : s.give_up(); });
    }

    /// Returns the object to be checked, or null.
    [[nodiscard]] T* object() const noexcept { return item_ ? &*item_->object : nullptr; }

    /// Records that the object failed its check; another one can be made in its place.
    void is_broken() noexcept {
        item_.reset();
        change_stock(*core_, [](stock& s) { s.fail_check(); });
    }
    /// Puts the checked object into the stock, as `is_made` does.
    void is_healthy(time_point now) noexcept {
        put_in([&](stock& s) { return s.add_checked(*item_, now); });
    }
    /// Puts a new object into the stock, where the first request in the queue gets it at once, or destroys it if it is
    /// above `max`.
    void is_made(T&& object, time_point now) {
        auto made = std::make_unique<item_type>();
        made->object.emplace(std::move(object));
        item_ = std::move(made);
        put_in([&](stock& s) { return s.add_made(*item_, now); });
    }

private:
    template <class Add>
    void put_in(Add add) noexcept {
        auto const core = std::move(core_);
        bool added = false;
        core->modify([&](auto& room) {
            added = add(room.policy());
            if (added)
                static_cast<void>(item_.release());
            return added;
        });
        if (added)
            return change_stock(*core, [](stock& s) { s.forget_checks(); });
        item_.reset();
        change_stock(*core, [](stock& s) { s.gone(); });
    }

    std::shared_ptr<Core> core_;  // null when the place was returned
    std::unique_ptr<item_type> item_;
};

}  // namespace weir::inline v0_2::detail
