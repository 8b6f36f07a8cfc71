// Seats. A restaurant has 3 seats, and a meal takes a second. Six guests arrive, each with a patience of half a second.
// 100 ms later two guests with a patience of two seconds arrive. Three guests eat immediately. Three guests time out
// and leave without ever having held a seat. The last two eat as soon as seats become free.
//
//     0.000 s  guest 1 sits down            (and 2 and 3)
//     0.500 s  guest 4 leaves hungry        (and 5 and 6)
//     1.000 s  guest 1 pays and goes        (and 2 and 3)
//     1.000 s  guest 7 sits down            (and 8)
//     2.000 s  guest 7 pays and goes        (and 8)
//
// Run it with --real to watch it in real time.

#include "stage.hpp"

using namespace std::chrono_literals;
namespace asio = boost::asio;

int main(int argc, char** argv) {
    auto const evening = [](auto& stage) {
        using kitchen_type =
            typename std::remove_reference_t<decltype(stage)>::template limiter<weir::seats>;
        // By default a deadline may be noticed up to a millisecond late, so that many deadlines share one wake-up
        // of the timer. This example prints exact times.
        kitchen_type kitchen(stage.context, {.seats = 3}, {.tolerance = 0ms});
        int fed = 0;
        int hungry = 0;

        auto const guest =
            [&](int number, std::chrono::milliseconds patience) -> asio::awaitable<void> {
            try {
                auto const seat = co_await kitchen.enter(patience);
                stage.say("guest {} sits down, after {} in the queue", number,
                          weir::readable(seat.waited()));
                co_await stage.sleep(1s);
                stage.say("guest {} pays and goes", number);
                ++fed;
            } catch (weir::rejection const& rejection) {
                stage.say("guest {} leaves hungry: {}", number, rejection);
                ++hungry;
            }
        };
        auto const latecomers = [&]() -> asio::awaitable<void> {
            co_await stage.sleep(100ms);
            for (int number : {7, 8})
                stage.start(guest(number, 2s));
        };

        for (int number : {1, 2, 3, 4, 5, 6})
            stage.start(guest(number, 500ms));
        stage.start(latecomers());
        stage.run();

        auto const stats = kitchen.stats();
        stage.say("{} fed, {} hungry; {}", fed, hungry, stats);
        return fed == 5 && hungry == 3 && stats.granted == 5 && stats.live == 0;
    };
    return play(argc, argv, evening);
}
