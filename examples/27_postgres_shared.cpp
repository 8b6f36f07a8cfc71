// Two processes share "100 calls per minute" through a PostgreSQL server. Start this program twice, with the same
// argument. Each process makes 10 calls. All processes together make 100 calls per minute, with bursts of 10.
//
//     example_27_postgres_shared postgresql://app@127.0.0.1/shop
//
//     g++ -std=c++20 27_postgres_shared.cpp -o 27_postgres_shared $(pkg-config --cflags --libs weir-postgres)

#include <weir/format.hpp>
#include <weir/postgres/store.hpp>

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

asio::awaitable<void> make_calls(weir::postgres::store& store,
                                 weir::postgres::token_bucket& calls) {
    co_await store.install();  // creates the tables; throws if the server is unavailable
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
        weir::postgres::options const where{.url = argc > 1 ? argv[1] : "postgresql://"};
        auto const store = std::make_shared<weir::postgres::store>(ctx, where);
        weir::postgres::token_bucket calls{ctx, store, "calls", hundred_per_minute};
        co_spawn(ctx, make_calls(*store, calls), rethrow);
        ctx.run();
        fmt::print("{}\n", calls.stats());
    } catch (std::exception const& e) {
        fmt::print(stderr, "{}\n", e.what());
        return 1;
    }
}
