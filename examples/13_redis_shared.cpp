// Two processes share "100 calls per minute" through a Redis server. Start this program twice, with the same argument.
// Each process makes 10 calls. All processes together make 100 calls per minute, with bursts of 10.
//
//     example_13_redis_shared redis://127.0.0.1:6379
//
// 11_mysql_shared does this through a database, and without arguments on virtual time.
//
//     g++ -std=c++20 13_redis_shared.cpp -o 13_redis_shared $(pkg-config --cflags --libs weir-redis)

#include <weir/format.hpp>
#include <weir/redis/store.hpp>

#include <boost/asio.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <chrono>
#include <exception>
#include <memory>

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

// 100 per minute, with bursts of 10. While the store does not reply, each of the two processes grants half of that.
weir::shared_options const hundred_per_minute{
    .rate = {100, 1min}, .burst = 10, .on_failure = weir::fail_local{0.5}};

asio::awaitable<void> make_calls(weir::redis::store& store, weir::redis::token_bucket& calls) {
    co_await store.check();  // throws if the server is unavailable
    for (int number = 1; number <= 10; ++number) {
        auto const call = co_await calls.async_enter(1min);
        fmt::print("process {} makes call {:>2}: {}\n", ::getpid(), number, call);
    }
}

void rethrow(std::exception_ptr failure) {
    if (failure)
        std::rethrow_exception(failure);
}

}  // namespace

int main(int argc, char* argv[]) {
    try {
        asio::io_context ctx;
        weir::redis::options const where{.url = argc > 1 ? argv[1] : "redis://127.0.0.1"};
        auto const store = std::make_shared<weir::redis::store>(ctx, where);
        weir::redis::token_bucket calls{ctx, store, "calls", hundred_per_minute};
        co_spawn(ctx, make_calls(*store, calls), rethrow);
        ctx.run();
        fmt::print("{}\n", calls.stats());
    } catch (std::exception const& e) {
        fmt::print(stderr, "{}\n", e.what());
        return 1;
    }
}
