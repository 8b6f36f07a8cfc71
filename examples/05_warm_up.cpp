// A cold start. A database serves 20 queries per second after its caches have warmed up. So for the first four seconds
// the limiter grants fewer queries: a third of that rate in the beginning. After a pause the database is cold again,
// and the limiter starts at the low rate.
//
//     0.000 s  open for queries
//     1.000 s  after 1 s:  8 queries in the last second
//     2.000 s  after 2 s:  8
//     3.000 s  after 3 s: 10
//     4.000 s  after 4 s: 14
//     5.000 s  after 5 s: 20           and so on
//    10.000 s  a pause of 10 seconds
//    20.000 s  open for queries
//    21.000 s  after 21 s:  8

#include "stage.hpp"

#include <map>

using namespace std::chrono_literals;
namespace asio = boost::asio;

int main(int argc, char** argv) {
    auto const story = [](auto& stage) {
        using pace_type = typename std::remove_reference_t<decltype(stage)>::template limiter<
            weir::smooth_warming_up>;
        using clock = typename pace_type::clock_type;
        pace_type pace(stage.context, {.rate = {20, 1s}, .warm_up = 4s, .cold_factor = 3});

        auto const opened = clock::now();
        std::map<long, int> queries;  // number of queries in each second
        bool open = true;

        // Four clients that send queries without a pause.
        auto const client = [&]() -> asio::awaitable<void> {
            while (open) {
                auto const turn = co_await pace.enter();
                if (open)
                    ++queries[(clock::now() - opened) / 1s];
            }
        };
        auto const day = [&](int seconds) -> asio::awaitable<void> {
            open = true;
            stage.say("open for queries");
            for (int i = 0; i != 4; ++i)
                stage.start(client());
            for (int i = 0; i != seconds; ++i) {
                co_await stage.sleep(1s);
                auto const second = (clock::now() - opened) / 1s;
                stage.say("after {} s: {:2} queries in the last second", second,
                          queries[second - 1]);
            }
            open = false;
        };
        auto const two_days = [&]() -> asio::awaitable<void> {
            co_await day(10);
            stage.say("a pause of 10 seconds");
            co_await stage.sleep(10s);
            co_await day(2);
        };

        stage.start(two_days());
        stage.run();
        return queries[0] < 10 && queries[9] == 20 && queries[20] < 10;
    };
    return play(argc, argv, story);
}
