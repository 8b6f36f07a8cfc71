// A server under overload: 2,000 requests per second. The limiter does not know its capacity. The server has 40
// workers, each of which takes 50 ms per request, so it can serve 800 requests per second. Further requests would wait
// inside the server, and each request would take longer. The adaptive seats in front of it find the capacity: they
// lower their number until fewer requests are served, which are 40 seats, and add a quarter. After 20 s half of the
// workers stop.
//
//     5.000 s  50 seats, 646 responses per second
//    10.000 s  50 seats, 800 responses per second
//    20.000 s  half of the workers are gone
//    25.000 s  25 seats, 399 responses per second
//
// The limiter rejects excess requests at once; without it the server would serve them late.

#include "stage.hpp"

#include <chrono>
#include <type_traits>
#include <utility>

using namespace std::chrono_literals;
namespace asio = boost::asio;

int main(int argc, char** argv) {
    auto const story = [](auto& stage) {
        using stage_type = std::remove_reference_t<decltype(stage)>;
        using door_type = typename stage_type::template limiter<weir::adaptive_seats>;
        using workers_type = typename stage_type::template limiter<weir::seats>;

        // The server: its workers are seats with a practically unbounded queue.
        workers_type workers(stage.context, {.seats = 40}, {.max_waiting = 1'000'000});
        auto const work = [&]() -> asio::awaitable<void> {
            auto const worker = co_await workers.enter();
            co_await stage.sleep(50ms);
        };

        door_type door(stage.context, weir::knee_options{.max = 400}, {.max_waiting = 0});
        int answers = 0;
        auto const request = [&](weir::permit seat) -> asio::awaitable<void> {
            co_await work();  // `seat` measures the time of this call
            ++answers;
            seat.leave();
        };
        bool open = true;
        auto const crowd = [&]() -> asio::awaitable<void> {
            while (open) {
                if (auto seat = door.try_enter())
                    stage.start(request(std::move(seat)));
                co_await stage.sleep(500us);
            }
        };
        bool good = true;
        auto const watch = [&]() -> asio::awaitable<void> {
            for (int i = 1; i <= 8; ++i) {
                answers = 0;
                co_await stage.sleep(5s);
                auto const seats = door.stats().capacity;
                stage.say("{} seats, {} responses per second", seats, answers / 5);
                if (i == 4) {
                    good = good && answers > 5 * 650;
                    workers.configure([](auto& options) { options.seats = 20; });
                    stage.say("half of the workers are gone");
                }
            }
            good = good && answers > 5 * 300;
            open = false;
        };
        stage.start(crowd());
        stage.start(watch());
        stage.run();
        return good;
    };
    return play(argc, argv, story);
}
