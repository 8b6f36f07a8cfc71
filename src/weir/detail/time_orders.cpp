#include <weir/detail/time_orders.hpp>
#include <weir/queue_options.hpp>
#include <weir/time.hpp>

#include <cstddef>
#include <variant>

namespace weir::inline v0_2::detail::order {

void any::configure(queue_options const& options, time_point oldest) noexcept {
    if (rule_.index() != static_cast<std::size_t>(options.order)) {
        switch (options.order) {
            case queue_order::fifo:
                rule_.emplace<fifo>();
                break;
            case queue_order::lifo:
                rule_.emplace<lifo>();
                break;
            case queue_order::adaptive_lifo:
                rule_.emplace<adaptive_lifo>();
                break;
            case queue_order::codel:
                rule_.emplace<codel>();
                break;
            case queue_order::priority:  // not by times alone
            case queue_order::fair:
            case queue_order::shares:
                break;
        }
    }
    std::visit([&](auto& rule) { rule.configure(options, oldest); }, rule_);
}

bool any::other_foresees() const noexcept {
    return std::visit([](auto const& rule) { return rule.foresees(); }, rule_);
}
void any::other_begin(time_point now) noexcept {
    std::visit([&](auto& rule) { rule.begin(now); }, rule_);
}
void any::other_grant(duration waited, time_point now) noexcept {
    std::visit([&](auto& rule) { rule.grant(waited, now); }, rule_);
}
bool any::other_newest_first(time_point now) const noexcept {
    return std::visit([&](auto const& rule) { return rule.newest_first(now); }, rule_);
}
bool any::other_gives_up(time_point since, time_point now) noexcept {
    return std::visit([&](auto& rule) { return rule.gives_up(since, now); }, rule_);
}
time_point any::other_next_event(time_point since, time_point now) const noexcept {
    return std::visit([&](auto const& rule) { return rule.next_event(since, now); }, rule_);
}

}  // namespace weir::inline v0_2::detail::order
