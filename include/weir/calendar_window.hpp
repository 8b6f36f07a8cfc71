#pragma once

#include <weir/detail/compiled.hpp>
#include <weir/limiter.hpp>
#include <weir/policy/calendar_window.hpp>

namespace weir::inline v0_2 {

/// A quota of the calendar: at most `limit` permits per day, week or month of a time zone.
///
///     weir::calendar_window quota{ctx, {.limit = 1'000, .zone = weir::time_zone("Europe/Berlin")}};
///
/// `basic_limiter` documents the operations, `policy::calendar_window` the rule.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
using basic_calendar_window = basic_limiter<policy::calendar_window, Executor, Timer>;

/// A quota of the calendar: at most `limit` permits per day, week or month; see `basic_calendar_window`.
using calendar_window = basic_calendar_window<>;

}  // namespace weir::inline v0_2

WEIR_COMPILED_LIMITER(weir::policy::calendar_window)
