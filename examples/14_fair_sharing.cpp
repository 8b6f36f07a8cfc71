// Three tenants share one API that allows 10 calls per second. The first is a job of 300 workers that call without a
// pause. The second makes larger calls, which count 5 each. The third is a person and makes a call now and then. Each
// tenant is a flow, and the limiter serves flows in turn. So the person waits for one turn and not for the job. The two
// tenants that always have requests get nearly the same number of permits.
//
//     5.600 s  person: a call, after 1.1s in the queue
//    11.200 s  person: a call, after 1.1s in the queue
//    16.800 s  person: a call, after 1.1s in the queue
//    20.000 s  job: 106 permits, bulk: 100 permits
//    22.400 s  person: a call, after 1.1s in the queue
//
// In arrival order the person would wait for half a minute.

#include "stage.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>

using namespace std::chrono_literals;
namespace asio = boost::asio;

int main(int argc, char** argv) {
    auto const story = [](auto& stage) {
        using stage_type = std::remove_reference_t<decltype(stage)>;
        using calls_type = typename stage_type::template limiter<weir::token_bucket>;
        calls_type calls(stage.context, {.rate = {10, 1s}, .burst = 10},
                         weir::queue_options::parse("order fair full evict_oldest"));

        std::map<std::string, weir::amount> used;
        weir::duration longest{};  // longest wait of the person
        weir::amount apart = 0;
        bool open = true;
        auto const call = [&](std::string tenant, weir::amount cost) -> asio::awaitable<void> {
            auto const key = std::hash<std::string>()(tenant);
            auto const permit = co_await calls.enter({cost, {.flow = key}}, 1min);
            used[tenant] += cost;
            if (tenant != "person")
                co_return;
            longest = std::max(longest, permit.waited());
            stage.say("person: a call, after {} in the queue", weir::readable(permit.waited()));
        };
        auto const work = [&](std::string tenant, weir::amount cost) -> asio::awaitable<void> {
            while (open)
                co_await call(tenant, cost);
        };
        auto const person = [&]() -> asio::awaitable<void> {
            for (int i = 0; i != 4; ++i) {
                co_await stage.sleep(4500ms);
                co_await call("person", 1);
            }
        };
        auto const close = [&]() -> asio::awaitable<void> {
            co_await stage.sleep(20s);
            open = false;
            apart = std::abs(used["job"] - used["bulk"]);
            stage.say("job: {} permits, bulk: {} permits", used["job"], used["bulk"]);
        };

        for (int i = 0; i != 300; ++i)
            stage.start(work("job", 1));
        for (int i = 0; i != 3; ++i)
            stage.start(work("bulk", 5));
        stage.start(person());
        stage.start(close());
        stage.run();
        return longest < 2s && apart <= 20;
    };
    return play(argc, argv, story);
}
