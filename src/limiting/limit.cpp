#include "limit.hpp"

#include <algorithm>

namespace limiting {
namespace {

// Chains need `fifo`, and `fair` must know the clients of all its requests, so neither order can be set or left.
bool may_change_order(weir::queue_order before, weir::queue_order after) {
    using enum weir::queue_order;
    return (before == fifo) == (after == fifo) && (before == fair) == (after == fair);
}

}  // namespace

void add(weir::limiter_stats& sum, weir::limiter_stats const& part) noexcept {
    sum.name = part.name;
    sum.granted += part.granted;
    sum.granted_immediately += part.granted_immediately;
    sum.permits_granted += part.permits_granted;
    sum.no_permit += part.no_permit;
    sum.timed_out += part.timed_out;
    sum.deadline_unreachable += part.deadline_unreachable;
    sum.queue_full += part.queue_full;
    sum.shed += part.shed;
    sum.exceeds_capacity += part.exceeds_capacity;
    sum.closed += part.closed;
    sum.too_many_keys += part.too_many_keys;
    sum.unavailable += part.unavailable;
    sum.cancelled += part.cancelled;
    sum.waited_total += part.waited_total;
    sum.waited_max = std::max(sum.waited_max, part.waited_max);
    sum.rejected_waited_total += part.rejected_waited_total;
    sum.rejected_waited_max = std::max(sum.rejected_waited_max, part.rejected_waited_max);
    sum.waiting += part.waiting;
    sum.waiting_for += part.waiting_for;
    sum.live += part.live;
    sum.in_use += part.in_use;
}

bool can_be_chained(config::limit const& c) {
    return c.store.empty() && c.queue.order == weir::queue_order::fifo;
}

bool can_become(config::limit const& before, config::limit const& after) {
    return after.name == before.name && config::are_of_one_kind(after.rule, before.rule) &&
           after.key == before.key && after.v4_prefix == before.v4_prefix &&
           after.v6_prefix == before.v6_prefix && after.max_keys == before.max_keys &&
           after.max_memory == before.max_memory && after.when_full == before.when_full &&
           after.priority == before.priority && after.store == before.store &&
           after.shared_as == before.shared_as &&
           may_change_order(before.queue.order, after.queue.order);
}

}  // namespace limiting
