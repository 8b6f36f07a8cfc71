// 1 the first argument must be a key. Its type must be the type of the keys
#include <weir/keyed.hpp>
#include <weir/policy/seats.hpp>

using namespace std::chrono_literals;

boost::asio::awaitable<void> f(weir::keyed<std::uint64_t, weir::policy::seats>& limiter) {
    auto permit = co_await limiter.enter(1s);
}
