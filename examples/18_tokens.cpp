// An API of a language model allows 60 requests and 30,000 tokens per minute. The number of tokens of a response is
// known only at its end. So a request acquires the largest number that it may use, and settles it to the number used.
// Unused tokens are free for other requests at once. Excess tokens become debt, and later requests wait for it. A chain
// enters both limits, and holds no permit of one while it waits for the other.
//
// Twenty clients send one question after the other. A response may take 2,500 tokens, and takes 1,000. At 10 s a report
// is requested, which takes more tokens than it acquired. For comparison, twenty other clients with separate, equal
// limits settle nothing.
//
//    48.000 s  the report is complete: it took 17000 tokens, not 12000; the debt is 4500
//    60.000 s  settled: 41 responses, 57000 tokens
//    60.000 s  not settled: 23 responses, 23000 tokens
//
// The report waits until its 12,000 tokens are free, and all later requests wait behind it.

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
    // Returns true if the response arrives within this minute.
    asio::awaitable<bool> ask(weir::amount most, weir::amount truth, weir::duration takes) {
        weir::chain door{requests_, tokens_.with(most)};
        auto [ec, turn] = co_await door.async_enter(asio::as_tuple(asio::deferred));
        if (ec)
            co_return false;
        co_await stage_.sleep(takes);  // the model computes the response
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
            stage_.say("the report is complete: it took 17000 tokens, not 12000; the debt is {}",
                       tokens_.stats().debt);
    }
    asio::awaitable<void> end() {
        co_await stage_.sleep(1min);
        is_over_ = true;
        requests_.close();
        tokens_.close();
        stage_.say("{}: {} responses, {} tokens", settles_ ? "settled" : "not settled", answers,
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
        // The limit: the burst of 30,000 tokens, and 30,000 tokens in the minute.
        bool const keeps_the_limit = settled.used <= 60'000 + settled.most_owed;
        return settled.used > 2 * unsettled.used && settled.most_owed > 0 && keeps_the_limit;
    };
    return play(argc, argv, story);
}
