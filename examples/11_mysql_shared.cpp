// Two processes share "100 calls per minute" through a MariaDB or MySQL server. Start this program twice, with the same
// arguments. Each process makes 10 calls. All processes together make 100 calls per minute, with bursts of 10.
//
//     example_11_mysql_shared --socket /run/mysqld/mysqld.sock --user me --database test
//
// Without arguments the program uses a store in memory, on virtual time, and two limiters instead of two processes.
//
//     g++ -std=c++20 11_mysql_shared.cpp -o 11_mysql_shared $(pkg-config --cflags --libs weir-mysql)

#include <weir/format.hpp>
#include <weir/mysql/store.hpp>
#include <weir/shared/memory_store.hpp>
#include <weir/testing.hpp>

#include <boost/asio.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <chrono>
#include <exception>
#include <memory>
#include <string_view>

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

// 100 per minute, with bursts of 10. While the store does not reply, each of the two processes grants half of that.
weir::shared_options const hundred_per_minute{
    .rate = {100, 1min}, .burst = 10, .on_failure = weir::fail_local{0.5}};

template <class Limiter>
asio::awaitable<void> make_calls(Limiter& calls, std::string_view who) {
    for (int number = 1; number <= 10; ++number) {
        auto const call = co_await calls.async_enter(1min);
        fmt::print("{} makes call {:>2}: {}\n", who, number, call);
    }
}

void rethrow(std::exception_ptr failure) {
    if (failure)
        std::rethrow_exception(failure);
}

void play() {
    asio::io_context ctx;
    using timer = weir::testing::timer;
    auto const store = std::make_shared<weir::basic_memory_store<timer>>(ctx);
    store->behave({.there = 500us, .back = 500us});
    using limiter = weir::basic_shared_token_bucket<asio::any_io_executor, timer>;
    limiter one(ctx, store, "calls", hundred_per_minute);
    limiter other(ctx, store, "calls", hundred_per_minute);
    co_spawn(ctx, make_calls(one, "one"), rethrow);
    co_spawn(ctx, make_calls(other, "the other"), rethrow);
    weir::testing::run(ctx);
    fmt::print("{} requests to the store for 20 calls\n",
               one.shared_stats().questions + other.shared_stats().questions);
}

void share(weir::mysql::options const& where) {
    asio::io_context ctx;
    auto const store = std::make_shared<weir::mysql::store>(ctx, where);
    co_spawn(ctx, store->install(), rethrow);
    ctx.run();
    ctx.restart();

    weir::mysql::token_bucket calls{ctx, store, "calls", hundred_per_minute};
    auto const who = fmt::format("process {}", ::getpid());
    co_spawn(ctx, make_calls(calls, who), rethrow);
    ctx.run();
    fmt::print("{}\n", calls.stats());
}

}  // namespace

int main(int argc, char* argv[]) {
    try {
        weir::mysql::options where;
        for (int i = 1; i + 1 < argc; i += 2) {
            std::string_view const option = argv[i];
            (option == "--socket"     ? where.socket
             : option == "--user"     ? where.user
             : option == "--password" ? where.password
             : option == "--database" ? where.database
                                      : where.host) = argv[i + 1];
        }
        if (argc > 1)
            share(where);
        else
            play();
    } catch (std::exception const& e) {
        fmt::print(stderr, "{}\n", e.what());
        return 1;
    }
}
