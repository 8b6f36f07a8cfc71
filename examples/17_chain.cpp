// Three limits: two workers (seats), 5 calls per second for all clients, and one call per second for each client. Each
// call needs a permit of all three. A chain acquires all permits or none. While Ann's third call waits for her own
// rate, it holds no worker and no permit of the total rate, and Bob is served meanwhile.
//
//     0.000 s  ann: granted after 0s
//     0.000 s  bob: granted after 0s
//     0.200 s  bob: rejected by the client's rate, retry in 800ms
//     0.500 s  cat: granted after 300ms
//     1.000 s  ann: granted after 1s
//     2.000 s  ann: granted after 2s

#include "stage.hpp"

#include <array>
#include <string>

using namespace std::chrono_literals;
namespace asio = boost::asio;

int main(int argc, char** argv) {
    auto const service = [](auto& stage) {
        using stage_type = std::remove_reference_t<decltype(stage)>;
        using seats = typename stage_type::template limiter<weir::seats>;
        using bucket = typename stage_type::template limiter<weir::token_bucket>;
        using keyed = weir::basic_keyed<std::string, weir::policy::token_bucket,
                                        asio::any_io_executor, typename seats::timer_type>;
        seats workers(stage.context, {.seats = 2});
        bucket calls(stage.context, {.rate = {5, 1s}, .burst = 5});
        keyed per_client(stage.context, {.rate = {1, 1s}, .burst = 1});

        int granted = 0;
        int rejected = 0;
        auto const call = [&](std::string client, weir::duration after,
                              weir::patience wait) -> asio::awaitable<void> {
            co_await stage.sleep(after);
            weir::chain all{workers, per_client.with(client), calls};
            auto const [ec, permits] =
                co_await all.async_enter(wait, asio::as_tuple(asio::deferred));
            if (ec) {
                ++rejected;
                constexpr std::array limiters{"the workers", "the client's rate", "the total rate"};
                stage.say("{}: rejected by {}, retry in {}", client,
                          limiters.at(permits.rejected_by().value()),
                          weir::readable(permits.retry_after().value_or(weir::duration::zero())));
                co_return;
            }
            ++granted;
            stage.say("{}: granted after {}", client, weir::readable(permits.waited()));
            co_await stage.sleep(500ms);
        };
        for (int i = 0; i != 3; ++i)
            stage.start(call("ann", 0s, 1min));
        stage.start(call("bob", 0s, 1min));
        stage.start(call("bob", 200ms, 0s));
        stage.start(call("cat", 200ms, 1s));
        stage.run();
        return granted == 5 && rejected == 1 && calls.stats().granted == 5;
    };
    return play(argc, argv, service);
}
