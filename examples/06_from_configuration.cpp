// Limits from a configuration file: a line of text selects the kind of limiter. The options change while the limiter
// is in use. The message for an invalid line has the position of the error.
//     g++ -std=c++20 06_from_configuration.cpp -o 06_from_configuration $(pkg-config --cflags --libs weir)

#include <weir/format.hpp>
#include <weir/weir.hpp>

#include <boost/asio.hpp>

#include <fmt/format.h>

#include <stdexcept>

using namespace std::chrono_literals;
namespace asio = boost::asio;
using weir::limiter_config;

asio::awaitable<void> download(weir::any_limiter& downloads, int number) {
    auto const seat = co_await downloads.enter();
    fmt::print("download {} starts, after {}\n", number, weir::readable(seat.waited()));
    asio::steady_timer work(co_await asio::this_coro::executor, 100ms);
    co_await work.async_wait(asio::use_awaitable);
}

int main() {
    asio::io_context context;
    weir::any_limiter downloads{context, limiter_config::parse("2 seats max_hold 30s")};
    weir::any_limiter logins{context, limiter_config::parse("3/60s")};

    for (int number = 1; number <= 4; ++number)
        co_spawn(context, download(downloads, number), asio::detached);
    context.poll();  // two of four downloads start
    downloads.configure(limiter_config::parse("4 seats max_hold 30s"));
    fmt::print("downloads: {}\n", downloads.options());
    context.run();  // the others follow

    for (int i = 1; i <= 4; ++i) {
        auto const login = logins.try_enter();
        fmt::print("login {} at {}: {}\n", i, logins.options(), login);
    }

    int complaints = 0;
    for (auto const* const line : {"2 seats hold 30s", "10/60 exact", "0 seats"}) {
        try {
            downloads.configure(limiter_config::parse(line));
        } catch (std::invalid_argument const& e) {
            fmt::print("wrong: {}\n", e.what());
            ++complaints;
        }
    }
    bool const good = downloads.stats().granted == 4 && logins.stats().granted == 3;
    return good && complaints == 3 ? 0 : 1;
}
