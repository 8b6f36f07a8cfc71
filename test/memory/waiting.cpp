#include <weir/chain.hpp>
#include <weir/keyed.hpp>
#include <weir/seats.hpp>
#include <weir/token_bucket.hpp>

#include "support/allocations.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>

// The memory of waiting requests, by the documentation of `keyed` and `basic_limiter`. A request has the smallest
// handler: what a real one stores comes on top of that.

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

using buckets = weir::keyed<std::uint64_t, weir::policy::token_bucket>;
using tables = weir::keyed<std::uint64_t, weir::policy::seats>;

constexpr std::uint64_t many = 10'000;
constexpr weir::patience none = weir::forever;

constexpr auto ignore = [](weir::error_code, auto) {};

// Returns the bytes that `f()` allocates and keeps.
template <class F>
double bytes_of(F f) {
    auto const before = support::bytes_in_use.load();
    f();
    return static_cast<double>(support::bytes_in_use.load() - before);
}

// A further waiting request in the same line, on the average: 256 bytes with malloc's overhead, and 272 with a key. To
// some blocks malloc adds 16 bytes.
constexpr double bytes_of_another = 257;
constexpr double bytes_of_another_by_key = 273;

void report(char const* what, double bytes) {
    fmt::print("memory, {}: {:.0f} bytes\n", what, bytes);
    std::fflush(stdout);
}

// A limiter by key that has used up the permits of all keys below `many`.
struct used_up {
    used_up() {
        for (std::uint64_t key = 0; key != many; ++key)
            static_cast<void>(all.try_enter(key));
    }

    double bytes_of_a_waiter(weir::patience wait) {
        return bytes_of([&] {
                   for (std::uint64_t key = 0; key != many; ++key)
                       all.async_enter(key, 1, wait, ignore);
               }) /
               static_cast<double>(many);
    }

    asio::io_context ctx;
    buckets all{ctx, {.rate = {1, 1h}}, {.max_keys = 2 * many}};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(memory_waiting)

BOOST_FIXTURE_TEST_CASE(a_key_takes_600_bytes, used_up) {
    auto const first = bytes_of_a_waiter(none);
    auto const second = bytes_of_a_waiter(none);
    report("the first waiting request of a key", first);
    report("the second", second);
    BOOST_TEST(first <= 600);
    BOOST_TEST(second <= bytes_of_another_by_key);
    all.close();
}

BOOST_FIXTURE_TEST_CASE(a_key_takes_no_more_with_a_patience, used_up) {
    auto const first = bytes_of_a_waiter(30h);
    auto const second = bytes_of_a_waiter(30h);
    report("the first waiting request of a key, with a patience", first);
    BOOST_TEST(first <= 600);
    BOOST_TEST(second <= bytes_of_another_by_key);
    all.close();
}

BOOST_FIXTURE_TEST_CASE(a_key_without_a_waiting_request_returns_the_memory, used_up) {
    auto const wait_and_leave = [&] {
        for (std::uint64_t key = 0; key != 100; ++key)
            all.async_enter(key, 1, 30h, ignore);
        all.cancel();
        ctx.poll();
        ctx.restart();
    };
    wait_and_leave();  // Asio keeps memory, and the limiter the histogram of waits
    BOOST_TEST(bytes_of(wait_and_leave) == 0);
}

BOOST_AUTO_TEST_CASE(a_limiter_takes_2500_bytes_for_its_first_waiting_request) {
    asio::io_context ctx;
    weir::seats kitchen{ctx, {.seats = 1}};
    auto const taken = kitchen.try_enter();
    auto const first = bytes_of([&] { kitchen.async_enter(1, 1h, ignore); });
    auto const another = bytes_of([&] {
                             for (std::uint64_t i = 0; i != many; ++i)
                                 kitchen.async_enter(1, 1h, ignore);
                         }) /
                         static_cast<double>(many);
    report("the first waiting request of a limiter", first);
    report("another", another);
    BOOST_TEST(first <= 2'500);
    BOOST_TEST(another <= bytes_of_another);
    kitchen.close();
}

BOOST_AUTO_TEST_CASE(a_chain_over_two_keys_and_seats_takes_2500_bytes) {
    constexpr std::uint64_t chains = 1'000;
    for (auto const wait : {none, weir::patience(30h)}) {
        asio::io_context ctx;
        buckets rates{ctx, {.rate = {1, 1h}}, {.max_keys = 2 * chains}};
        tables hosts{ctx, {.seats = 1}, {.max_keys = 2 * chains}};
        weir::seats all{ctx, {.seats = 1'000'000}};
        for (std::uint64_t key = 0; key != chains; ++key) {
            static_cast<void>(rates.try_enter(key));
            static_cast<void>(hosts.try_enter(key));
        }
        auto const bytes = bytes_of([&] {
                               for (std::uint64_t key = 0; key != chains; ++key) {
                                   weir::chain fetch{rates.with(key), hosts.with(key), all};
                                   fetch.async_enter(wait, ignore);
                               }
                           }) /
                           static_cast<double>(chains);
        report("a waiting chain over two keys and seats", bytes);
        BOOST_TEST(bytes <= 2'500);
        rates.close();
        hosts.close();
        all.close();
    }
}

BOOST_AUTO_TEST_SUITE_END()
