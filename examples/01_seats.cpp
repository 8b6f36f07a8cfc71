// Seats. A service runs 3 jobs at a time, and a job takes a second. Six jobs arrive, each with a patience of half a
// second. 100 ms later two jobs with a patience of two seconds arrive. Three jobs start immediately. Three jobs time out
// without ever having held a seat. The last two start as soon as seats become free.
//
//     0.000 s  job 1 starts                 (and 2 and 3)
//     0.500 s  job 4 is rejected            (and 5 and 6)
//     1.000 s  job 1 is done                (and 2 and 3)
//     1.000 s  job 7 starts                 (and 8)
//     2.000 s  job 7 is done                (and 8)
//
// Run it with --real to watch it in real time.

#include "stage.hpp"

using namespace std::chrono_literals;
namespace asio = boost::asio;

int main(int argc, char** argv) {
    auto const service = [](auto& stage) {
        using seats_type =
            typename std::remove_reference_t<decltype(stage)>::template limiter<weir::seats>;
        // By default a deadline may be noticed up to a millisecond late, so that many deadlines share one wake-up
        // of the timer. This example prints exact times.
        seats_type workers(stage.context, {.seats = 3}, {.tolerance = 0ms});
        int done = 0;
        int rejected = 0;

        auto const job =
            [&](int number, std::chrono::milliseconds patience) -> asio::awaitable<void> {
            try {
                auto const seat = co_await workers.enter(patience);
                stage.say("job {} starts, after {} in the queue", number,
                          weir::readable(seat.waited()));
                co_await stage.sleep(1s);
                stage.say("job {} is done", number);
                ++done;
            } catch (weir::rejection const& rejection) {
                stage.say("job {} is rejected: {}", number, rejection);
                ++rejected;
            }
        };
        auto const latecomers = [&]() -> asio::awaitable<void> {
            co_await stage.sleep(100ms);
            for (int number : {7, 8})
                stage.start(job(number, 2s));
        };

        for (int number : {1, 2, 3, 4, 5, 6})
            stage.start(job(number, 500ms));
        stage.start(latecomers());
        stage.run();

        auto const stats = workers.stats();
        stage.say("{} done, {} rejected; {}", done, rejected, stats);
        return done == 5 && rejected == 3 && stats.granted == 5 && stats.live == 0;
    };
    return play(argc, argv, service);
}
