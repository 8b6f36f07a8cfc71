#include <weir/detail/observed_events.hpp>

#include <algorithm>
#include <exception>
#include <utility>

namespace weir::inline v0_2::detail {

namespace {

// A request that waits asks for at least one permit, and has a number; other operations ask for none.
bool is_unreported_request(operation const& op) noexcept {
    return op.count != 0 && op.number != 0;
}

request_event event_of(operation const& op, time_point now) noexcept {
    return {.asked = op.asked_in_full(),
            .granted = op.granted.count(),
            .error = op.error,
            .waited = op.granted ? op.granted.waited() : std::max(now - op.since, duration::zero()),
            .retry_after = op.granted.retry_after()};
}

}  // namespace

std::shared_ptr<observer const> shared_observer(observer f) {
    return f ? std::make_shared<observer const>(std::move(f)) : nullptr;
}

void observed_events::add(request_event const& e) noexcept {
    try {
        events_.push_back(e);
    } catch (std::exception const&) {}
}

observed_events observed_events::take(limiter_name const& name, time_point now) noexcept {
    observed_events taken;
    if (observer_) {
        taken.observer_ = observer_;
        taken.name_ = name;
        taken.now_ = now;
    }
    taken.events_.swap(events_);
    return taken;
}

void observed_events::report(operation_list& ended) noexcept {
    auto const call = [this](request_event e) {
        e.limiter = name_;
        try {
            (*observer_)(e);
        } catch (...) {}
    };
    if (observer_) {
        for (auto* op = ended.empty() ? nullptr : &ended.front(); op; op = ended.after(*op)) {
            if (is_unreported_request(*op)) {
                call(event_of(*op, now_));
                op->number = 0;
            }
        }
        std::ranges::for_each(events_, call);
    }
    *this = {};
}

}  // namespace weir::inline v0_2::detail
