// A polite crawler: at most one request at a time to each host, and at least 2 s between the end of one request and the
// beginning of the next. Eight workers fetch the pages of three hosts; the hosts do not wait for each other. On virtual
// time this takes a moment; a real crawler uses `weir::keyed<std::string, weir::policy::resting_seats>`.
//     g++ -std=c++20 26_crawler.cpp -o 26_crawler $(pkg-config --cflags --libs weir)

#include <weir/testing.hpp>
#include <weir/weir.hpp>

#include <boost/asio.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <string>

using namespace std::chrono_literals;
namespace asio = boost::asio;
using weir::testing::clock;
using polite_hosts = weir::basic_keyed<std::string, weir::policy::resting_seats,
                                       asio::any_io_executor, weir::testing::timer>;

struct page {
    std::string host;
    int number;
};

// The hosts record how they are treated.
class internet {
public:
    asio::awaitable<void> fetch(page const& p) {
        auto& host = hosts_[p.host];
        if (host.pages != 0)
            shortest_pause = std::min(shortest_pause, clock::now() - host.last_end);
        most_at_once = std::max(most_at_once, ++host.active);
        weir::testing::timer work(co_await asio::this_coro::executor, 100ms * (p.number % 5 + 1));
        co_await work.async_wait(asio::use_awaitable);
        --host.active;
        ++host.pages;
        host.last_end = clock::now();
    }

    clock::duration shortest_pause = clock::duration::max();
    int most_at_once = 0;

private:
    struct record {
        int active = 0;
        int pages = 0;
        clock::time_point last_end;
    };
    std::map<std::string, record> hosts_;
};

asio::awaitable<void> worker(polite_hosts& hosts, internet& all, std::deque<page>& todo,
                             int& done) {
    while (!todo.empty()) {
        auto const next = todo.front();
        todo.pop_front();
        auto seat = co_await hosts.enter(next.host);  // the rest begins when `seat` is destroyed
        co_await all.fetch(next);
        ++done;
    }
}

int main() {
    asio::io_context context;
    polite_hosts hosts{context, {.seats = 1, .rest = 2s}};
    internet all;
    std::deque<page> todo;
    for (int number = 0; number != 10; ++number)
        for (auto const* const host : {"a.example", "b.example", "c.example"})
            todo.push_back({host, number});
    int const pages = static_cast<int>(todo.size());
    int done = 0;
    for (int i = 0; i != 8; ++i)
        co_spawn(context, worker(hosts, all, todo, done), asio::detached);
    auto const start = clock::now();
    while (done != pages)
        weir::testing::run_for(context, 10ms);
    auto const took = std::chrono::duration<double>(clock::now() - start);

    auto const pause = std::chrono::duration<double>(all.shortest_pause);
    fmt::print(
        "{} pages in {:.1f} s; at most {} at a time per host, and a pause of at least {:.1f} s\n",
        done, took.count(), all.most_at_once, pause.count());
    return all.most_at_once == 1 && all.shortest_pause == 2s && took < 25s ? 0 : 1;
}
