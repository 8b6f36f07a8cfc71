#pragma once

#include <weir/amount.hpp>
#include <weir/throttle.hpp>

#include "support/connection.hpp"
#include "support/virtual_limiters.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <exception>

namespace support {

/// Two coroutines over a throttled stream: 1 MB of virtual time per second each way.
struct both_ways {
    explicit both_ways(weir::amount burst)
        : out(ctx, {.rate = {1'000'000, 1s}, .burst = burst}),
          in(ctx, {.rate = {1'000'000, 1s}, .burst = burst}) {}

    template <class Stream>
    void throttle(Stream& stream) {
        stream.throttle_writes(weir::throttle(out));
        stream.throttle_reads(weir::throttle(in));
    }
    template <class Coroutine>
    void start(Coroutine const& coroutine) {
        asio::co_spawn(ctx, coroutine, [this](std::exception_ptr e) {
            --left;
            if (e)
                std::rethrow_exception(e);
        });
    }
    /// Returns the virtual time that both take.
    double run() {
        auto const begin = clock::now();
        BOOST_TEST_REQUIRE(run_until(ctx, [this] { return left == 0; }));
        return std::chrono::duration<double>(clock::now() - begin).count();
    }

    asio::io_context ctx;
    token_bucket out;
    token_bucket in;
    int left = 2;  // coroutines
};

}  // namespace support
