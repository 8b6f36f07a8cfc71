// A server under overload: 2,000 requests per second, and nobody knows how many of them it can work on at a time.
// In truth it has 40 workers, each of which takes 50 ms, so that it can do 800 per second; whatever it is given
// beyond that waits inside of it, and each request takes longer. The seats before it find out: they begin with 20,
// double until the answers take longer, and stay near 40. After 20 s half of its workers are gone.
//
//     5.000 s  45 seats, 706 answers per second
//  20.000 s  half of the workers are gone
//  25.000 s  26 seats, 393 answers per second
//
// What cannot be served is rejected at once, instead of late.

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

        // The server: seats of its own, with a queue that never ends.
        workers_type workers(stage.context, {.seats = 40}, {.max_waiting = 1'000'000});
        auto const work = [&]() -> asio::awaitable<void> {
            auto const worker = co_await workers.enter();
            co_await stage.sleep(50ms);
        };

        door_type door(stage.context, weir::vegas_options{.max = 400}, {.max_waiting = 0});
        int answers = 0;
        auto const request = [&](weir::permit seat) -> asio::awaitable<void> {
            co_await work();  // `seat` times it
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
                stage.say("{} seats, {} answers per second", seats, answers / 5);
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
