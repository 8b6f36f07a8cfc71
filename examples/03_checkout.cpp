// Seats that guard a resource: two connections to a database, shared by several callers. The example shows a query with
// a time limit (`||`), a cancelled request, a callback, a release by `leave()`, and a report of a permit that is held
// for too long.
//
//     0.000 s  report: has a connection      (and the backup, so both connections are in use)
//     0.200 s  impatient: gave up            cancelled while it waited; it took nothing
//     0.300 s  page: no connection in time   cancelled by ||
//     1.000 s  report: done
//     1.000 s  callback: has a connection    it was the next request in the queue
//     2.000 s  overdue: permit ...           the backup holds its connection for longer than `max_hold`
//     3.000 s  backup: done

#include "stage.hpp"

#include <boost/asio/experimental/awaitable_operators.hpp>

#include <vector>

using namespace std::chrono_literals;
using namespace boost::asio::experimental::awaitable_operators;
namespace asio = boost::asio;

// The guarded resource: a seat is the right to take a connection out of the drawer.
struct connection {
    int number;
};

int main(int argc, char** argv) {
    auto const story = [](auto& stage) {
        using seats_type =
            typename std::remove_reference_t<decltype(stage)>::template limiter<weir::seats>;
        seats_type seats(stage.context, {.seats = 2, .max_hold = 2s});
        std::vector<connection> drawer{{1}, {2}};
        asio::cancellation_signal change_of_mind;

        auto const worker =
            [&](std::string name, std::chrono::seconds length) -> asio::awaitable<void> {
            auto seat = co_await seats.enter();
            auto const mine = drawer.back();
            drawer.pop_back();
            stage.say("{}: has connection {}", name, mine.number);
            co_await stage.sleep(length);
            drawer.push_back(mine);
            seat.leave();  // the next request gets the connection now
            stage.say("{}: done", name);
        };
        auto const page = [&]() -> asio::awaitable<void> {
            auto const first = co_await (seats.enter() || stage.sleep(300ms));
            if (first.index() == 1)
                stage.say("page: no connection in time");
        };
        auto const impatient = [&](boost::system::error_code error, weir::permit) {
            stage.say("impatient: gave up, {}", error.message());
        };
        auto const callback = [&](boost::system::error_code error, weir::permit seat) {
            stage.say("callback: {}, {}", error ? error.message() : "has a connection", seat);
        };
        int late = 0;
        auto const watch = [&]() -> asio::awaitable<void> {
            auto const overdue = co_await seats.async_wait_overdue(asio::use_awaitable);
            stage.say("overdue: {}", overdue);  // each permit is reported once
            late += static_cast<int>(overdue.count);
        };
        auto const changes_its_mind = [&]() -> asio::awaitable<void> {
            co_await stage.sleep(200ms);
            change_of_mind.emit(asio::cancellation_type::all);
        };

        stage.start(watch());
        stage.start(worker("report", 1s));
        stage.start(worker("backup", 3s));
        stage.context.poll();  // both connections are in use now
        seats.async_enter(asio::bind_cancellation_slot(change_of_mind.slot(), impatient));
        stage.start(page());
        stage.start(changes_its_mind());
        stage.context.poll();
        seats.async_enter(callback);
        stage.run();

        stage.say("{} connections in the drawer, {} permits in use", drawer.size(),
                  seats.stats().live);
        return drawer.size() == 2 && seats.stats().live == 0 && seats.stats().cancelled == 2 &&
               late == 1;
    };
    return play(argc, argv, story);
}
