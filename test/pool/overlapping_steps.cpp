#include <weir/pool.hpp>
#include <weir/testing.hpp>

#include "support/virtual_limiters.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/execution.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/require.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <functional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using namespace support;

namespace {

// What happens while a step uses its executor, as if another thread did it.
struct interruptions {
    std::function<void()> of_query;  // the next time that a copy names its context
    std::function<void()> of_end;    // when only `left` copies exist
    int copies = 0;
    int left = -1;

    static void call(std::function<void()>& f) {
        if (auto const once = std::exchange(f, nullptr))
            once();
    }
};

// The executor of an io_context, with interruptions.
template <class Inner>
class interrupted_executor {
public:
    interrupted_executor(Inner inner, interruptions& by) noexcept
        : inner_(std::move(inner)), by_(&by) {
        ++by_->copies;
    }
    interrupted_executor(interrupted_executor const& other) noexcept
        : interrupted_executor(other.inner_, *other.by_) {}
    interrupted_executor& operator=(interrupted_executor const&) noexcept = default;
    ~interrupted_executor() {
        if (--by_->copies == by_->left)
            interruptions::call(by_->of_end);
    }

    template <class P>
        requires asio::can_query_v<Inner const&, P>
    decltype(auto) query(P const& p) const {
        if constexpr (std::is_same_v<P, asio::execution::context_t>)
            interruptions::call(by_->of_query);
        return asio::query(inner_, p);
    }
    template <class P>
        requires asio::can_require_v<Inner const&, P>
    auto require(P const& p) const {
        return with(asio::require(inner_, p));
    }
    template <class P>
        requires(!asio::can_require_v<Inner const&, P> && asio::can_prefer_v<Inner const&, P>)
    auto prefer(P const& p) const {
        return with(asio::prefer(inner_, p));
    }
    template <class F>
    void execute(F&& f) const {
        inner_.execute(std::forward<F>(f));
    }
    friend bool operator==(interrupted_executor const& a, interrupted_executor const& b) noexcept {
        return a.inner_ == b.inner_;
    }

private:
    template <class Other>
    [[nodiscard]] auto with(Other other) const {
        return interrupted_executor<Other>(std::move(other), *by_);
    }

    Inner inner_;
    interruptions* by_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(pool_steps)

// A step reserves a place, and another one begins the only retry that is allowed. If the retry ends before the first step
// has returned its place, the step of the retry sees the place in use, and begins no job for the other request. The
// interruptions run handlers inside of functions that do not throw, so the test cannot be cut.
BOOST_AUTO_TEST_CASE(a_step_that_may_not_retry_returns_its_place_to_the_waiting_requests,
                     *boost::unit_test::label("whole")) {
    using executor = interrupted_executor<asio::io_context::executor_type>;
    using pool_type = weir::basic_pool<int, executor, weir::testing::basic_timer<executor>>;
    asio::io_context ctx;
    interruptions by;
    int attempts = 0;
    auto const make = [&](executor const&) -> asio::awaitable<int> {
        if (++attempts == 1)
            throw std::runtime_error("no object");
        co_return attempts;
    };
    std::vector<weir::lease<int>> leases;
    {
        pool_type pool(executor(ctx.get_executor(), by), make,
                       {.max = 2, .retry = {.initial = 1ns, .max = 1ns}});
        auto const check_out = [&] {
            pool.async_checkout([&](weir::error_code, weir::lease<int> lease) {
                leases.push_back(std::move(lease));
            });
        };
        check_out();
        while (attempts == 0)
            ctx.run_one();
        by.of_query = [&] {
            check_out();
            for (int i = 0; i != 5 && pool.stats().being_created < 2; ++i)
                ctx.poll_one();
            BOOST_TEST(pool.stats().being_created == 2);
            by.left = by.copies - 1;
            by.of_end = [&] { run_for(ctx, 1ms); };
        };
        run_for(ctx, 1s);
        BOOST_TEST(leases.size() == 2U);
        BOOST_TEST(pool.stats().requests.waiting == 0U);
        BOOST_TEST(pool.stats().being_created == 0);
        leases.clear();
        pool.close();
        settle(ctx);
    }
    settle(ctx);
}

BOOST_AUTO_TEST_SUITE_END()
