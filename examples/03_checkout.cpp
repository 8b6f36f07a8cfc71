// Seats that guard a resource: two connections to a database. The program shows a query with a time limit (`||`), a
// cancelled request, a callback, a release by `leave()`, and a report of a permit that is held for too long.
//     g++ -std=c++20 03_checkout.cpp -o 03_checkout $(pkg-config --cflags --libs weir)

#include <weir/format.hpp>
#include <weir/weir.hpp>

#include <boost/asio.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>

#include <fmt/format.h>

#include <string>
#include <vector>

using namespace std::chrono_literals;
using namespace boost::asio::experimental::awaitable_operators;
namespace asio = boost::asio;

struct connection {
    int number;
};

struct database {
    weir::seats seats;
    std::vector<connection> idle;  // a seat is the right to take one of these
};

asio::awaitable<void> sleep(std::chrono::milliseconds length) {
    asio::steady_timer timer(co_await asio::this_coro::executor, length);
    co_await timer.async_wait(asio::use_awaitable);
}

asio::awaitable<void> query(database& db, std::string name, std::chrono::milliseconds length) {
    auto seat = co_await db.seats.enter();
    auto const mine = db.idle.back();
    db.idle.pop_back();
    fmt::print("{}: has connection {}\n", name, mine.number);
    co_await sleep(length);
    db.idle.push_back(mine);
    seat.leave();  // the next request gets the connection now, and not at the end of this function
    fmt::print("{}: done\n", name);
}

asio::awaitable<void> page(database& db) {
    auto const first = co_await (db.seats.enter() || sleep(30ms));
    fmt::print("page: {}\n", first.index() == 0 ? "has a connection" : "no connection in time");
}

asio::awaitable<void> watch(database& db, bool& has_report) {
    auto const overdue = co_await db.seats.async_wait_overdue(asio::use_awaitable);
    fmt::print("overdue: {}\n", overdue);
    has_report = true;
}

int main() {
    asio::io_context context;
    database db{weir::seats{context, {.seats = 2, .max_hold = 200ms}}, {{1}, {2}}};
    bool has_report = false;
    co_spawn(context, watch(db, has_report), asio::detached);
    co_spawn(context, query(db, "report", 100ms), asio::detached);
    co_spawn(context, query(db, "backup", 400ms), asio::detached);
    context.poll();  // both connections are in use now

    asio::cancellation_signal change_of_mind;
    db.seats.async_enter(asio::bind_cancellation_slot(
        change_of_mind.slot(), [](boost::system::error_code error, weir::permit) {
            fmt::print("impatient: {}\n", error.message());
        }));
    co_spawn(context, page(db), asio::detached);
    db.seats.async_enter([](boost::system::error_code error, weir::permit seat) {
        fmt::print("callback: {}, {}\n", error ? error.message() : "has a connection", seat);
    });
    context.poll();
    change_of_mind.emit(asio::cancellation_type::all);  // the request takes nothing
    context.run();

    auto const stats = db.seats.stats();
    fmt::print("{} idle connections, {} permits in use\n", db.idle.size(), stats.live);
    return db.idle.size() == 2 && stats.live == 0 && stats.cancelled >= 1 && has_report ? 0 : 1;
}
