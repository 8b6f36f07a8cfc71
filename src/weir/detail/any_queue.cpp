#include <weir/amount.hpp>
#include <weir/detail/any_queue.hpp>
#include <weir/detail/arrival_queue.hpp>
#include <weir/detail/chain/operation.hpp>
#include <weir/detail/fair_queue.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/priority_queue.hpp>
#include <weir/detail/shares_queue.hpp>
#include <weir/detail/time_orders.hpp>
#include <weir/queue_options.hpp>
#include <weir/time.hpp>

#include <memory>
#include <type_traits>

namespace weir::inline v0_2::detail {

namespace {

template <class Queue>
class any_group final : public grouped_queue {
public:
    explicit any_group(queue_options const& options) : queue_(options) {}

    void configure(queue_options const& options) noexcept override { queue_.configure(options); }
    void prepare(operation const& op) override { queue_.prepare(op); }
    void push(operation& op) noexcept override { return queue_.push(op); }
    void erase(operation& op) noexcept override { return queue_.erase(op); }
    void replace(operation& op, operation& by) noexcept override { return queue_.replace(op, by); }
    void grant(operation& op, amount n, time_point now) noexcept override {
        return queue_.grant(op, n, now);
    }
    [[nodiscard]] bool empty() const noexcept override { return queue_.empty(); }
    [[nodiscard]] bool ranks_chains() const noexcept override { return ranks; }
    void prepare_chain(chain_entry const& e) override {
        if constexpr (ranks)
            queue_.prepare_chain(e);
    }
    void forget_chain(chain_entry const& e) noexcept override {
        if constexpr (ranks)
            queue_.forget_chain(e);
    }
    void push_chain(chain_entry& e) noexcept override {
        if constexpr (ranks)
            queue_.push_chain(e);
    }
    void erase_chain(chain_entry& e) noexcept override {
        if constexpr (ranks)
            queue_.erase_chain(e);
    }
    void grant_chain(chain_entry const& e, time_point now) noexcept override {
        if constexpr (ranks)
            queue_.grant_chain(e, now);
    }
    [[nodiscard]] bool would_be_next(chain_entry const& e, time_point now) const noexcept override {
        if constexpr (ranks)
            return queue_.would_be_next(e, now);
        else
            return false;
    }
    [[nodiscard]] queued_request* next(time_point now) const noexcept override {
        return queue_.next(now);
    }
    [[nodiscard]] operation* oldest() const noexcept override { return queue_.oldest(); }
    [[nodiscard]] operation* newest() const noexcept override { return queue_.newest(); }
    [[nodiscard]] operation* after(operation& op) const noexcept override {
        return queue_.after(op);
    }
    [[nodiscard]] bool bars(request const& r, time_point now) const noexcept override {
        return queue_.bars(r, now);
    }
    [[nodiscard]] bool foresees() const noexcept override { return queue_.foresees(); }
    [[nodiscard]] amount ahead_of_new(request const& r, time_point now) const noexcept override {
        return queue_.ahead_of_new(r, now);
    }
    [[nodiscard]] operation* makes_way(request const& r,
                                       operation* previous) const noexcept override {
        return queue_.makes_way(r, previous);
    }
    [[nodiscard]] operation* shed(time_point now) noexcept override { return queue_.shed(now); }
    [[nodiscard]] time_point next_event(time_point now) const noexcept override {
        return queue_.next_event(now);
    }
    [[nodiscard]] shares_queue* accounts() noexcept override {
        if constexpr (std::is_same_v<Queue, shares_queue>)
            return &queue_;
        else
            return nullptr;
    }

private:
    static constexpr bool ranks = chain_ranking_queue<Queue>;

    Queue queue_;
};

std::unique_ptr<grouped_queue> make_group(queue_options const& options) {
    switch (options.order) {
        case queue_order::priority:
            return std::make_unique<any_group<priority_queue>>(options);
        case queue_order::fair:
            return std::make_unique<any_group<fair_queue>>(options);
        case queue_order::shares:
            return std::make_unique<any_group<shares_queue>>(options);
        default:
            return nullptr;
    }
}

}  // namespace

any_queue::any_queue(queue_options const& options) {
    if (options.order == queue_order::shares) {
        grouped_ = make_group(options);
        order_ = options.order;
    }
    configure(options);
}

bool any_queue::can_use(queue_options const& options, request const& r) noexcept {
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

void any_queue::configure(queue_options const& options) noexcept {
    wanted_ = options.order;
    ageing_ = options.ageing;
    if (!is_grouped(options.order))
        plain_.configure(options);
    if (grouped_)
        grouped_->configure(options);
}

void any_queue::select_group() {
    // A change of the order is possible now if no request waits.
    if ((!grouped_ && !is_grouped(wanted_)) || !empty() || chains_ != 0)
        return;
    if (!grouped_ || order_ != wanted_) {
        grouped_ = make_group({.order = wanted_, .ageing = ageing_});
        order_ = wanted_;
    }
}

}  // namespace weir::inline v0_2::detail
