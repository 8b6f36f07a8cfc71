#pragma once

#include <weir/detail/arrival_queue.hpp>
#include <weir/detail/fair_queue.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/order.hpp>
#include <weir/detail/priority_queue.hpp>
#include <weir/detail/shares_queue.hpp>
#include <weir/queue_options.hpp>
#include <weir/time.hpp>

#include <memory>
#include <utility>
#include <variant>

namespace weir::detail {

/// The queue for the order that the options name at run time. The parts that only `priority` and `fair` need are
/// allocated when the first request joins under such an order; a change from or to these orders waits until the queue
/// is empty. The order `shares` exists from construction or never.
class any_queue {
    template <class Self, class F>
    static decltype(auto) with(Self& self, F f) noexcept {
        if (!self.grouped_) [[likely]]
            return f(self.plain_);
        if (auto* const queue = std::get_if<priority_queue>(self.grouped_.get()))
            return f(*queue);
        if (auto* const queue = std::get_if<shares_queue>(self.grouped_.get()))
            return f(*queue);
        return f(*std::get_if<fair_queue>(self.grouped_.get()));
    }

public:
    explicit any_queue(queue_options const& options = {}) {
        if (options.order == queue_order::shares) {
            grouped_ = std::make_unique<grouped>(std::in_place_type<shares_queue>);
            order_ = options.order;
        }
        configure(options);
    }

    static void check(queue_options const&) noexcept {}
    static void check_change(queue_options const& before, queue_options const& next) {
        detail::check_change(before.order, next.order);
    }
    [[nodiscard]] static bool can_use(queue_options const& options, request const& r) noexcept {
        switch (options.order) {
            case queue_order::priority:
                return priority_queue::can_use(options, r);
            case queue_order::fair:
                return fair_queue::can_use(options, r);
            case queue_order::shares:
                return shares_queue::can_use(options, r);
            default:
                return arrival_queue<order::any>::can_use(options, r);
        }
    }

    void configure(queue_options const& options) noexcept {
        wanted_ = options.order;
        ageing_ = options.ageing;
        if (!is_grouped(options.order))
            plain_.configure(options);
        if (grouped_)
            std::visit([&](auto& queue) { queue.configure(options); }, *grouped_);
    }
    void prepare(operation const& op) {
        if (!grouped_ && !is_grouped(wanted_)) [[likely]]
            return;
        choose();
        if (grouped_)
            std::visit([&](auto& queue) { queue.prepare(op); }, *grouped_);
    }
    void push(operation& op) noexcept {
        with(*this, [&](auto& queue) { queue.push(op); });
    }
    void erase(operation& op) noexcept {
        with(*this, [&](auto& queue) { queue.erase(op); });
    }
    void replace(operation& op, operation& by) noexcept {
        with(*this, [&](auto& queue) { queue.replace(op, by); });
    }
    void grant(operation& op, amount n, time_point now) noexcept {
        with(*this, [&](auto& queue) { queue.grant(op, n, now); });
    }
    [[nodiscard]] bool empty() const noexcept {
        return with(*this, [](auto& queue) { return queue.empty(); });
    }
    [[nodiscard]] operation* next(time_point now) const noexcept {
        return with(*this, [&](auto& queue) { return queue.next(now); });
    }
    [[nodiscard]] operation* oldest() const noexcept {
        return with(*this, [](auto& queue) { return queue.oldest(); });
    }
    [[nodiscard]] operation* after(operation& op) const noexcept {
        return with(*this, [&](auto& queue) { return queue.after(op); });
    }
    [[nodiscard]] bool bars(request const& r, time_point now) const noexcept {
        return with(*this, [&](auto& queue) { return queue.bars(r, now); });
    }
    [[nodiscard]] bool foresees() const noexcept {
        return with(*this, [](auto& queue) { return queue.foresees(); });
    }
    [[nodiscard]] amount ahead_of_new(request const& r, time_point now) const noexcept {
        return with(*this, [&](auto& queue) { return queue.ahead_of_new(r, now); });
    }
    [[nodiscard]] operation* makes_way(request const& r, operation* previous) const noexcept {
        return with(*this, [&](auto& queue) { return queue.makes_way(r, previous); });
    }
    [[nodiscard]] operation* shed(time_point now) noexcept {
        return with(*this, [&](auto& queue) { return queue.shed(now); });
    }
    [[nodiscard]] time_point next_event(time_point now) const noexcept {
        return with(*this, [&](auto& queue) { return queue.next_event(now); });
    }
    [[nodiscard]] shares_queue* accounts() const noexcept {
        return grouped_ ? std::get_if<shares_queue>(grouped_.get()) : nullptr;
    }

private:
    using grouped = std::variant<priority_queue, fair_queue, shares_queue>;

    [[nodiscard]] static bool is_grouped(queue_order order) noexcept {
        return order == queue_order::priority || order == queue_order::fair ||
               order == queue_order::shares;
    }

    // Selects the queue for the wanted order, if a change is possible now.
    void choose() {
        if (!empty() || (grouped_ && order_ == wanted_))
            return;
        queue_options const options{.order = wanted_, .ageing = ageing_};
        if (wanted_ == queue_order::priority)
            grouped_ = std::make_unique<grouped>(std::in_place_type<priority_queue>, options);
        else if (wanted_ == queue_order::fair)
            grouped_ = std::make_unique<grouped>(std::in_place_type<fair_queue>, options);
        else
            grouped_ = nullptr;
        order_ = wanted_;
    }

    arrival_queue<order::any> plain_;
    duration ageing_{};
    queue_order wanted_ = queue_order::fifo;
    queue_order order_ = queue_order::fifo;  // of `grouped_`
    std::unique_ptr<grouped> grouped_;
};

}  // namespace weir::detail
