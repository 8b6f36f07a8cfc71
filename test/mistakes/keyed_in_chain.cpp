// 1 a keyed limiter needs a key here: limiter.with(key)
#include <weir/chain.hpp>
#include <weir/keyed.hpp>
#include <weir/policy/seats.hpp>
#include <weir/seats.hpp>

boost::asio::awaitable<void> f(weir::seats& all, weir::keyed<int, weir::policy::seats>& limiter) {
    weir::chain both{all, limiter};
    auto permits = co_await both.enter();
}
