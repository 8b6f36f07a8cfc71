#pragma once

#include <weir/any_limiter.hpp>
#include <weir/error.hpp>
#include <weir/fixed_window.hpp>
#include <weir/leaky_bucket.hpp>
#include <weir/limiter.hpp>
#include <weir/permit.hpp>
#include <weir/queue_options.hpp>
#include <weir/rate.hpp>
#include <weir/seats.hpp>
#include <weir/sliding_log.hpp>
#include <weir/sliding_window.hpp>
#include <weir/smooth_bursty.hpp>
#include <weir/smooth_warming_up.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>
#include <weir/token_bucket.hpp>
