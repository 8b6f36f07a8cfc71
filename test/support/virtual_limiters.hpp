#pragma once

#include <weir/leaky_bucket.hpp>
#include <weir/seats.hpp>
#include <weir/sliding_log.hpp>
#include <weir/smooth_bursty.hpp>
#include <weir/smooth_warming_up.hpp>
#include <weir/testing.hpp>
#include <weir/token_bucket.hpp>

#include "support/cut.hpp"
#include "support/rethrow.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <chrono>
#include <exception>
#include <utility>

#ifdef WEIR_COMPILED_LIMITERS
#define WEIR_TEST_LIMITER(Policy) WEIR_INSTANTIATE_LIMITER(extern, Policy, weir::testing::timer)
WEIR_TEST_LIMITER(weir::policy::leaky_bucket)
WEIR_TEST_LIMITER(weir::policy::seats)
WEIR_TEST_LIMITER(weir::policy::sliding_log)
WEIR_TEST_LIMITER(weir::policy::smooth_bursty)
WEIR_TEST_LIMITER(weir::policy::smooth_warming_up)
WEIR_TEST_LIMITER(weir::policy::token_bucket)
#endif

/// The common parts of most tests of limiters: limiters on virtual time, and coroutines that run on it.
namespace support {

namespace asio = boost::asio;
using namespace std::chrono_literals;

using weir::testing::clock;
using seats = weir::testing::limiter<weir::seats>;
using sliding_log = weir::testing::limiter<weir::sliding_log>;
using token_bucket = weir::testing::limiter<weir::token_bucket>;
using leaky_bucket = weir::testing::limiter<weir::leaky_bucket>;
using smooth_bursty = weir::testing::limiter<weir::smooth_bursty>;
using smooth_warming_up = weir::testing::limiter<weir::smooth_warming_up>;

inline bool const can_be_cut = cuts::wanted = true;

/// Like the function of that name in weir/testing.hpp, except that the test may be cut short.
inline std::size_t run_for(asio::io_context& context, clock::duration d) {
    cut_context counted(context);
    return weir::testing::run_for(counted, d);
}

/// Runs all handlers that are ready; no time passes. Returns the number of handlers.
inline std::size_t settle(asio::io_context& context) {
    return run_for(context, 0s);
}

/// Runs two contexts alternately, until no handler of either is ready.
inline void settle(asio::io_context& one, asio::io_context& other) {
    while (settle(one) + settle(other) != 0) {}
}

}  // namespace support
