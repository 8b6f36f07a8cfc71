// A client of an API that allows 100 calls in any minute. The job makes 250 calls as fast as allowed, with four
// workers; each call takes 200 milliseconds.
//
//     0.000 s  call   1             the first 100 calls run at full speed
//     4.800 s  call 100
//    60.000 s  call 101             (to 104) a minute after the first calls; later calls follow as permits expire
//    62.600 s  call 150             the API is overloaded and responds with `Retry-After: 20`: all workers wait
//    82.600 s  call 150             again; (to 156) the next calls
//   120.000 s  call 200             (to 203)
//   122.600 s  250 calls
//
// At 30 s a request arrives for a user, with a patience of 20 seconds. It is rejected at once, with the time after
// which to retry.

#include "stage.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>

using namespace std::chrono_literals;
namespace asio = boost::asio;

int main(int argc, char** argv) {
    auto const story = [](auto& stage) {
        using quota_type =
            typename std::remove_reference_t<decltype(stage)>::template limiter<weir::sliding_log>;
        using clock = typename quota_type::clock_type;
        quota_type quota(stage.context, {.limit = 100, .window = 1min});

        // The vendor of the API counts the calls, too. Once it is overloaded: then its response has the field
        // `Retry-After`, which this function returns.
        std::deque<typename clock::time_point> last_minute;
        int received = 0;
        int rejected = 0;
        auto const call_vendor = [&]() -> asio::awaitable<std::optional<std::chrono::seconds>> {
            auto const now = clock::now();
            while (!last_minute.empty() && last_minute.front() <= now - 1min)
                last_minute.pop_front();
            last_minute.push_back(now);
            rejected += last_minute.size() > 100;
            bool const is_overloaded = ++received == 150;
            co_await stage.sleep(200ms);
            co_return is_overloaded ? std::optional(20s) : std::nullopt;
        };

        int made = 0;
        auto const worker = [&]() -> asio::awaitable<void> {
            while (made < 250) {
                auto const number = ++made;
                for (;;) {
                    auto const token = co_await quota.enter();
                    if (number % 100 <= 1 || token.waited() > 10s)
                        stage.say("call {:3}, after {} in the queue", number,
                                  weir::readable(token.waited()));
                    auto const retry_after = co_await call_vendor();
                    if (!retry_after)
                        break;
                    stage.say("call {:3}: 503, Retry-After: {}", number, retry_after->count());
                    quota.pause_for(*retry_after);  // all workers wait
                }
            }
        };
        auto const for_a_user = [&]() -> asio::awaitable<void> {
            co_await stage.sleep(30s);
            try {
                auto const token = co_await quota.enter(20s);
            } catch (weir::rejection const& rejection) {
                stage.say("not now: {}", rejection);
            }
        };

        for (int i = 0; i != 4; ++i)
            stage.start(worker());
        stage.start(for_a_user());
        stage.run();
        stage.say("{} calls, {} of them rejected by the vendor", made, rejected);
        return made == 250 && rejected == 0;
    };
    return play(argc, argv, story);
}
