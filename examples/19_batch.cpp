// A batch. It starts 10,000 jobs at once, of which 500 run at a time, and all of them are done.
//
//     10000 jobs done, 500 at a time: 10000 granted, 500 immediately, ...
//
// Two choices matter. By default a limiter lets 1,024 requests wait, because a server should reject what it cannot
// serve soon: here it would reject 8,476 of the 10,000 jobs. And the jobs start with a handler that throws the
// exception of a failed job out of `run`, because `asio::detached` ignores it.
//
//     g++ -std=c++20 19_batch.cpp -o 19_batch $(pkg-config --cflags --libs weir)

#include <weir/format.hpp>
#include <weir/seats.hpp>

#include <boost/asio.hpp>

#include <algorithm>
#include <exception>

using namespace std::chrono_literals;
namespace asio = boost::asio;

namespace {

struct batch {
    asio::io_context context;
    weir::seats workers{context, {.seats = 500}, {.max_waiting = weir::unlimited}};
    int running = 0;
    int most_running = 0;
    int done = 0;
};

asio::awaitable<void> job(batch& all) {
    auto const seat = co_await all.workers.enter();
    all.most_running = std::max(all.most_running, ++all.running);
    asio::steady_timer work(co_await asio::this_coro::executor, 10ms);
    co_await work.async_wait(asio::use_awaitable);
    --all.running;
    ++all.done;
}

void throw_on(std::exception_ptr failure) {
    if (failure)
        std::rethrow_exception(failure);
}

}  // namespace

int main() {
    constexpr int jobs = 10'000;
    batch all;
    for (int i = 0; i != jobs; ++i)
        co_spawn(all.context, job(all), throw_on);
    all.context.run();
    fmt::print("{} jobs done, {} at a time: {}\n", all.done, all.most_running, all.workers.stats());
    return all.done == jobs && all.most_running == 500 ? 0 : 1;
}
