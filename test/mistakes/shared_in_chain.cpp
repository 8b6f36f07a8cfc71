// 1 a shared limiter cannot be in a chain, because its store, outside this process, grants the permits
#include <weir/chain.hpp>
#include <weir/seats.hpp>
#include <weir/shared/limiter.hpp>

boost::asio::awaitable<void> f(weir::seats& all, weir::shared_token_bucket& shared) {
    weir::chain both{all, shared};
    auto permits = co_await both.enter();
}
