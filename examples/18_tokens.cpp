// An interface to a language model allows 60 requests and 30,000 tokens per minute. How many tokens an answer takes is
// known only when it is there. So a request asks for the most that it may take, and is settled to what it took in
// truth: what was not used is free for others at once, and what was used beyond that is owed by those that come next.
// A chain asks for both limits, and holds nothing of one while it waits for the other.
//
// Twenty clients ask one question after the other. An answer may take 2,500 tokens, and takes 1,000. At 10 s a report
// is asked for, which takes more than was thought. Beside them another twenty do the same, and settle nothing.
//
//  48.000 s  the report is there: it took 17000 tokens, not 12000; 4500 are owed
//  60.000 s  settled: 41 answers, 57000 tokens
//  60.000 s  not settled: 23 answers, 23000 tokens
//
// The report waits until its 12,000 are there, and all that came after it wait behind it.

#include "stage.hpp"

#include <algorithm>
#include <type_traits>

using namespace std::chrono_literals;
namespace asio = boost::asio;

namespace {

template <class Stage>
class minute {
    using bucket = typename Stage::template limiter<weir::token_bucket>;

public:
    minute(Stage& stage, bool settles)
        : stage_(stage),
          settles_(settles),
          requests_(stage.context, {.rate = {60, 1min}, .burst = 10}),
          tokens_(stage.context, {.rate = {30'000, 1min}, .burst = 30'000}) {
        for (int i = 0; i != 20; ++i)
            stage.start(client());
        stage.start(report());
        stage.start(end());
    }

    int answers = 0;
    weir::amount used = 0;
    weir::amount most_owed = 0;

private:
    // Whether there is an answer in this minute.
    asio::awaitable<bool> ask(weir::amount most, weir::amount truth, weir::duration takes) {
        weir::chain door{requests_, tokens_.with(most)};
        auto [ec, turn] = co_await door.async_enter(asio::as_tuple(asio::deferred));
        if (ec)
            co_return false;
        co_await stage_.sleep(takes);  // the model thinks
        if (settles_)
            turn[1].settle(truth);
        most_owed = std::max(most_owed, tokens_.stats().debt);
        if (is_over_)
            co_return false;
        ++answers;
        used += truth;
        co_return true;
    }

    asio::awaitable<void> client() {
        for (bool goes_on = true; goes_on;)
            goes_on = co_await ask(2'500, 1'000, 2s);
    }
    asio::awaitable<void> report() {
        co_await stage_.sleep(10s);
        bool const came = co_await ask(12'000, 17'000, 10s);
        if (came && settles_)
            stage_.say("the report is there: it took 17000 tokens, not 12000; {} are owed",
                       tokens_.stats().debt);
    }
    asio::awaitable<void> end() {
        co_await stage_.sleep(1min);
        is_over_ = true;
        requests_.close();
        tokens_.close();
        stage_.say("{}: {} answers, {} tokens", settles_ ? "settled" : "not settled", answers,
                   used);
    }

    Stage& stage_;
    bool settles_;
    bool is_over_ = false;
    bucket requests_;
    bucket tokens_;
};

}  // namespace

int main(int argc, char** argv) {
    auto const story = [](auto& stage) {
        using stage_type = std::remove_reference_t<decltype(stage)>;
        minute<stage_type> settled(stage, true);
        minute<stage_type> unsettled(stage, false);
        stage.run();
        // Of the burst and a minute's worth.
        bool const keeps_the_limit = settled.used <= 60'000 + settled.most_owed;
        return settled.used > 2 * unsettled.used && settled.most_owed > 0 && keeps_the_limit;
    };
    return play(argc, argv, story);
}
