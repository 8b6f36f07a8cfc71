#pragma once

#include <weir/detail/any_queue.hpp>
#include <weir/detail/arrival_queue.hpp>
#include <weir/detail/fair_queue.hpp>
#include <weir/detail/priority_queue.hpp>
#include <weir/detail/shares_queue.hpp>
#include <weir/detail/time_orders.hpp>

/// The orders of `queue_order` as types: the last parameter of `basic_limiter` and `basic_keyed`. With such a type the
/// options of the queue need not name the order, and must not name another one. With `any`, the default, the options
/// select the order.
namespace weir::inline v0_2::order {

/// The options of the queue select the order.
using any = detail::any_queue;
/// The order `queue_order::fifo`.
using fifo = detail::arrival_queue<detail::order::fifo>;
/// The order `queue_order::lifo`.
using lifo = detail::arrival_queue<detail::order::lifo>;
/// The order `queue_order::adaptive_lifo`.
using adaptive_lifo = detail::arrival_queue<detail::order::adaptive_lifo>;
/// The order `queue_order::codel`.
using codel = detail::arrival_queue<detail::order::codel>;
/// The order `queue_order::priority`.
using priority = detail::priority_queue;
/// The order `queue_order::fair`.
using fair = detail::fair_queue;
/// The order `queue_order::shares`.
using shares = detail::shares_queue;

}  // namespace weir::inline v0_2::order
