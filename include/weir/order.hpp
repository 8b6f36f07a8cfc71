#pragma once

#include <weir/detail/any_queue.hpp>
#include <weir/detail/arrival_queue.hpp>
#include <weir/detail/fair_queue.hpp>
#include <weir/detail/order.hpp>
#include <weir/detail/priority_queue.hpp>
#include <weir/detail/shares_queue.hpp>

/// The orders of `queue_order` by type: the last parameter of `basic_limiter` and `basic_keyed`. The options
/// of a queue need not name the order then, and no other. With `any`, which is the default, they choose.
namespace weir::order {

using any = detail::any_queue;
using fifo = detail::arrival_queue<detail::order::fifo>;
using lifo = detail::arrival_queue<detail::order::lifo>;
using adaptive_lifo = detail::arrival_queue<detail::order::adaptive_lifo>;
using codel = detail::arrival_queue<detail::order::codel>;
using priority = detail::priority_queue;
using fair = detail::fair_queue;
using shares = detail::shares_queue;

}  // namespace weir::order
