#include "limit.hpp"

namespace limiting {
namespace {

bool keeps_fifo(config::limit const& c) {
    return c.queue.order == weir::queue_order::fifo;
}

}  // namespace

bool can_be_chained(config::limit const& c) {
    return c.engine.empty() && keeps_fifo(c);
}

bool can_become(config::limit const& before, config::limit const& after) {
    return after.name == before.name && config::are_of_one_kind(after.rule, before.rule) &&
           after.key == before.key && after.v4_prefix == before.v4_prefix &&
           after.v6_prefix == before.v6_prefix && after.max_keys == before.max_keys &&
           after.priority == before.priority && after.engine == before.engine &&
           after.shared_as == before.shared_as && keeps_fifo(after) == keeps_fifo(before);
}

}  // namespace limiting
