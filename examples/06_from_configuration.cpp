// Limits from a configuration file: a line of text selects the kind of limiter, and the options change while the
// limiter is in use. The error message for an invalid line has the position of the error.
//
//     0.000 s  downloads: 2 seats max_hold 30s     two of four downloads start
//     1.000 s  downloads: 4 seats max_hold 30s     the other two downloads start
//     1.000 s  logins: 3/1min                      three are granted; the fourth is rejected with the time to wait
//     1.000 s  wrong: ...                          three invalid lines

#include "stage.hpp"

#include <map>
#include <stdexcept>

using namespace std::chrono_literals;
namespace asio = boost::asio;

int main(int argc, char** argv) {
    auto const story = [](auto& stage) {
        using limiter_type =
            typename std::remove_reference_t<decltype(stage)>::template limiter<weir::any_limiter>;
        using weir::limiter_config;
        std::map<std::string, limiter_config> const configuration{
            {"downloads", limiter_config::parse("2 seats max_hold 30s")},
            {"logins", limiter_config::parse("3/60s")},
        };
        limiter_type downloads(stage.context, configuration.at("downloads"));
        limiter_type logins(stage.context, configuration.at("logins"));
        int complaints = 0;

        auto const download = [&](int number) -> asio::awaitable<void> {
            auto const seat = co_await downloads.enter();
            stage.say("downloads: {} starts, after {}", number, weir::readable(seat.waited()));
            co_await stage.sleep(5s);
        };
        auto const operations = [&]() -> asio::awaitable<void> {
            stage.say("downloads: {}", downloads.options());
            co_await stage.sleep(1s);
            downloads.configure(limiter_config::parse("4 seats max_hold 30s"));
            stage.say("downloads: {}", downloads.options());
            co_await stage.sleep(0s);

            stage.say("logins: {}", logins.options());
            for (int i = 1; i <= 4; ++i) {
                auto const login = logins.try_enter();
                if (login)
                    stage.say("logins: {} is granted", i);
                else
                    stage.say("logins: {} is rejected: {}", i, login);
            }

            for (auto const* const line : {"2 seats hold 30s", "10/60 exact", "0 seats"}) {
                try {
                    downloads.configure(limiter_config::parse(line));
                } catch (std::invalid_argument const& e) {
                    stage.say("wrong: {}", e.what());
                    ++complaints;
                }
            }
        };

        stage.start(operations());
        for (int number = 1; number <= 4; ++number)
            stage.start(download(number));
        stage.run();
        return complaints == 3 && downloads.stats().granted == 4 && logins.stats().granted == 3;
    };
    return play(argc, argv, story);
}
