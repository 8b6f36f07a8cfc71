// Three limits: two stoves (seats), 5 dishes per second for all guests, and one dish per second for each guest. Each
// dish needs a permit of all three. A chain acquires all permits or none. While Ann's third dish waits for her own
// rate, it holds no stove and no permit of the total rate, and Bob is served meanwhile.
//
//     0.000 s  ann: a dish, after 0s
//     0.000 s  bob: a dish, after 0s
//     0.200 s  bob leaves: rejected by the guest's rate, retry in 800ms
//     0.500 s  cat: a dish, after 300ms
//     1.000 s  ann: a dish, after 1s
//     2.000 s  ann: a dish, after 2s

#include "stage.hpp"

#include <array>
#include <string>

using namespace std::chrono_literals;
namespace asio = boost::asio;

int main(int argc, char** argv) {
    auto const story = [](auto& stage) {
        using stage_type = std::remove_reference_t<decltype(stage)>;
        using seats = typename stage_type::template limiter<weir::seats>;
        using bucket = typename stage_type::template limiter<weir::token_bucket>;
        using keyed = weir::basic_keyed<std::string, weir::policy::token_bucket,
                                        asio::any_io_executor, typename seats::timer_type>;
        seats stoves(stage.context, {.seats = 2});
        bucket dishes(stage.context, {.rate = {5, 1s}, .burst = 5});
        keyed per_guest(stage.context, {.rate = {1, 1s}, .burst = 1});

        int served = 0;
        int rejected = 0;
        auto const dine = [&](std::string guest, weir::duration comes,
                              weir::patience wait) -> asio::awaitable<void> {
            co_await stage.sleep(comes);
            weir::chain door{stoves, per_guest.with(guest), dishes};
            auto const [ec, dish] = co_await door.async_enter(wait, asio::as_tuple(asio::deferred));
            if (ec) {
                ++rejected;
                constexpr std::array limiters{"the stoves", "the guest's rate", "the total rate"};
                stage.say("{} leaves: rejected by {}, retry in {}", guest,
                          limiters.at(dish.rejected_by().value()),
                          weir::readable(dish.retry_after().value_or(weir::duration::zero())));
                co_return;
            }
            ++served;
            stage.say("{}: a dish, after {}", guest, weir::readable(dish.waited()));
            co_await stage.sleep(500ms);
        };
        for (int i = 0; i != 3; ++i)
            stage.start(dine("ann", 0s, 1min));
        stage.start(dine("bob", 0s, 1min));
        stage.start(dine("bob", 200ms, 0s));
        stage.start(dine("cat", 200ms, 1s));
        stage.run();
        return served == 5 && rejected == 1 && dishes.stats().granted == 5;
    };
    return play(argc, argv, story);
}
