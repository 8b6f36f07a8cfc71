// A rate limit. A service allows ten calls in any minute: not ten in each minute of the clock, which would allow twenty
// calls within two seconds. Each call takes a permit, which expires after a minute. 25 callers arrive, one every two
// seconds.
//
//     0.000 s  call 1         one every two seconds
//    18.000 s  call 10        takes the last permit; the next call waits until the first permit expires
//    60.000 s  call 11        each later call is a minute after the call ten before it
//   120.000 s  call 21
//
// Two more callers do not wait long enough. Both are rejected: one with the time after which to retry, the other
// because its wait would exceed its patience.

#include "stage.hpp"

#include <algorithm>
#include <deque>

using namespace std::chrono_literals;
namespace asio = boost::asio;

int main(int argc, char** argv) {
    auto const story = [](auto& stage) {
        using tokens_type =
            typename std::remove_reference_t<decltype(stage)>::template limiter<weir::sliding_log>;
        using clock = typename tokens_type::clock_type;
        tokens_type tokens(stage.context, {.limit = 10, .window = 60s});
        std::deque<typename clock::time_point> last_minute;
        std::size_t most = 0;

        auto const call = [&](int number) {
            auto const now = clock::now();
            last_minute.push_back(now);
            while (last_minute.front() <= now - 60s)
                last_minute.pop_front();
            most = std::max(most, last_minute.size());
            stage.say("call {:2}, {} in the last minute", number, last_minute.size());
        };
        auto const caller = [&](int number) -> asio::awaitable<void> {
            co_await stage.sleep(2s * (number - 1));
            // `run` enters, calls and leaves.
            auto const mine = [&] { call(number); };
            co_await tokens.run(mine);
        };
        auto const in_a_hurry = [&]() -> asio::awaitable<void> {
            co_await stage.sleep(19s);
            auto const rejected = tokens.try_enter();
            stage.say("not now: {}", rejected);
            auto const [error, none] =
                co_await tokens.async_enter(5s, asio::as_tuple(asio::deferred));
            stage.say("not within 5 s: {}, {}", error.message(), none);
        };

        for (int number = 1; number <= 25; ++number)
            stage.start(caller(number));
        stage.start(in_a_hurry());
        stage.run();

        stage.say("at most {} calls in any window of 60 s; {}", most, tokens.stats());
        return most == 10 && tokens.stats().granted == 25;
    };
    return play(argc, argv, story);
}
