#include <weir/keyed.hpp>
#include <weir/limiter.hpp>
#include <weir/seats.hpp>

#include "support/allocations.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <utility>

// Asio's cache allocates with this function, and not with operator new.
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) {
    support::allocations_so_far.fetch_add(1, std::memory_order_relaxed);
    void* memory = nullptr;
    return posix_memalign(&memory, alignment, size) == 0 ? memory : nullptr;
}

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

// The allocations between the `co_await` of one coroutine and the beginning of the next coroutine. The first coroutine
// does not count: its limiter allocates memory for all that wait.
class allocations_of_a_wait {
public:
    void begins() noexcept {
        if (coroutines_++ > 1)
            most_ = std::max(most_, since_());
        since_ = {};
    }
    [[nodiscard]] std::size_t most() const noexcept { return most_; }

private:
    int coroutines_ = 0;
    support::allocation_count since_;
    std::size_t most_ = 0;
};

constexpr auto enter = [](auto& limiter, auto... r) { return limiter.enter(r...); };
constexpr auto async_enter = [](auto& limiter, auto... r) { return limiter.async_enter(r...); };

// Before the wait, the coroutine gives Asio's cache the memory of a smaller operation.
template <class Executor, class... Request>
asio::awaitable<void, Executor> waits(allocations_of_a_wait& here, asio::steady_timer& signal,
                                      auto call, auto& limiter, Request... r) {
    constexpr asio::use_awaitable_t<Executor> token;
    co_await signal.async_wait(asio::as_tuple(token));
    here.begins();
    auto request = call(limiter, r...);
    auto const granted = co_await std::move(request);
}

// More callers than Asio's cache has memory for.
constexpr int callers = 20;

// Returns the most allocations of a coroutine on `on` that makes a `call`.
template <class Executor, class... Request>
std::size_t count_of(asio::io_context& ctx, Executor const& on, auto call, auto& limiter,
                     Request... r) {
    allocations_of_a_wait here;
    asio::steady_timer signal(ctx, asio::steady_timer::time_point::max());
    for (int i = 0; i != callers; ++i)
        asio::co_spawn(on, waits<Executor>(here, signal, call, limiter, r...), asio::detached);
    ctx.restart();
    ctx.poll();
    signal.cancel();
    ctx.poll();
    return here.most();
}
template <class Executor, class... Request>
std::size_t count(asio::io_context& ctx, Executor const& on, auto& limiter, Request... r) {
    return std::max(count_of(ctx, on, async_enter, limiter, r...),
                    count_of(ctx, on, enter, limiter, r...));
}

using typed = asio::io_context::executor_type;

// The awaiter of a request to a limiter of the type `Limiter`.
template <class Limiter, class Executor>
using awaiter =
    asio::detail::awaitable_async_op<void(std::exception_ptr, weir::permit),
                                     decltype(std::declval<Limiter&>().async_enter()), Executor>;

static_assert(awaiter<weir::seats, asio::any_io_executor>::memory_type::fits);
static_assert(awaiter<weir::seats, typed>::memory_type::fits);
static_assert(awaiter<weir::basic_seats<typed>, asio::any_io_executor>::memory_type::fits);

}  // namespace

BOOST_AUTO_TEST_SUITE(memory_awaited)

BOOST_AUTO_TEST_CASE(a_wait_in_a_coroutine_allocates_nothing) {
    asio::io_context ctx;
    weir::seats kitchen{ctx, {.seats = 1}};
    auto const taken = kitchen.try_enter();
    asio::any_io_executor const any = ctx.get_executor();
    BOOST_TEST(count(ctx, any, kitchen) == 0U);
    BOOST_TEST(count(ctx, any, kitchen, 2h) == 0U);
    BOOST_TEST(count(ctx, ctx.get_executor(), kitchen) == 0U);
}

BOOST_AUTO_TEST_CASE(nor_does_a_free_permit) {
    asio::io_context ctx;
    weir::seats kitchen{ctx, {.seats = 1'000}};
    asio::any_io_executor const any = ctx.get_executor();
    BOOST_TEST(count(ctx, any, kitchen) == 0U);
    BOOST_TEST(count(ctx, any, kitchen, 2) == 0U);
    BOOST_TEST(count(ctx, ctx.get_executor(), kitchen) == 0U);
}

BOOST_AUTO_TEST_CASE(nor_does_a_wait_of_a_typed_limiter) {
    asio::io_context ctx;
    weir::basic_seats<typed> kitchen{ctx, {.seats = 1}};
    auto const taken = kitchen.try_enter();
    asio::any_io_executor const any = ctx.get_executor();
    BOOST_TEST(count(ctx, any, kitchen) == 0U);
    BOOST_TEST(count(ctx, ctx.get_executor(), kitchen) == 0U);
}

BOOST_AUTO_TEST_CASE(nor_does_a_wait_for_a_key) {
    asio::io_context ctx;
    weir::keyed<int, weir::policy::seats> tables{ctx, {.seats = 1}};
    auto const taken = tables.try_enter(7);
    asio::any_io_executor const any = ctx.get_executor();
    BOOST_TEST(count(ctx, any, tables, 7) == 0U);
    BOOST_TEST(count(ctx, any, tables, 7, 1, 2h) == 0U);
}

BOOST_AUTO_TEST_CASE(nor_does_a_wait_on_a_strand) {
    asio::io_context ctx;
    auto const strand = asio::make_strand(asio::any_io_executor(ctx.get_executor()));
    weir::seats kitchen{ctx, {.seats = 1}};
    auto const taken = kitchen.try_enter();
    BOOST_TEST(count(ctx, strand, kitchen) <= 1U);  // the strand's own
}

BOOST_AUTO_TEST_SUITE_END()
