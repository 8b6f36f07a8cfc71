#include "limit.hpp"

namespace limiting {
namespace {

// Chains need `fifo`, and `fair` must know the clients of all its requests, so neither order can be set or left.
bool may_change_order(weir::queue_order before, weir::queue_order after) {
    using enum weir::queue_order;
    return (before == fifo) == (after == fifo) && (before == fair) == (after == fair);
}

}  // namespace

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
