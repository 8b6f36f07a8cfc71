#include <weir/chain.hpp>
#include <weir/fixed_window.hpp>
#include <weir/keyed.hpp>
#include <weir/reservation.hpp>
#include <weir/sliding_log.hpp>
#include <weir/sliding_window.hpp>
#include <weir/testing.hpp>

#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/virtual_limiters.hpp"

#include <boost/mp11/list.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// Reservations of windows: the grant time depends on the amounts of the requests ahead, and not only on their sum. A slow
// model, written from the definitions of the limits, computes when each request of a queue is granted.

using namespace support;
using weir::amount;
using weir::errc;
using weir::error_code;
using weir::permit;
using instant = clock::time_point;

namespace {

using sliding_window = weir::testing::limiter<weir::sliding_window>;
using fixed_window = weir::testing::limiter<weir::fixed_window>;

struct grant {
    instant at;
    amount n;
};

// The definitions: how many permits count at `t`, after these grants in their order.

// Each grant counts for a window.
struct log_words {
    weir::sliding_log_options options;

    [[nodiscard]] amount counts(std::vector<grant> const& all, instant t) const {
        amount sum = 0;
        for (auto const& g : all)
            sum += g.at + options.window > t ? g.n : 0;
        return sum;
    }
};

// The grants of a slice count until a window after the last of them.
struct slice_words {
    weir::sliding_window_options options;

    [[nodiscard]] amount counts(std::vector<grant> const& all, instant t) const {
        auto const slice = (options.window + weir::duration(options.slices - 1)) / options.slices;
        amount sum = 0;
        for (std::size_t i = 0; i != all.size();) {
            auto const began = all[i].at;
            instant last;
            amount n = 0;
            for (; i != all.size() && (all[i].at == began || all[i].at < began + slice); ++i) {
                last = all[i].at;
                n += all[i].n;
            }
            sum += last + options.window > t ? n : 0;
        }
        return sum;
    }
};

// The grants since the window began count.
struct window_words {
    weir::fixed_window_options options;

    [[nodiscard]] amount counts(std::vector<grant> const& all, instant t) const {
        auto const w = options.window;
        auto const start = [&](instant at) {
            return options.alignment == weir::window_alignment::epoch
                       ? at - at.time_since_epoch() % w
                       : at;
        };
        std::optional<instant> began;
        amount sum = 0;
        for (auto const& g : all) {
            if (!began || g.at >= *began + w) {
                began = start(g.at);
                sum = 0;
            }
            sum += g.n;
        }
        return began && t < *began + w ? sum : 0;
    }
};

// A queue under such a limit. It looks at each nanosecond.
template <class Words>
struct model {
    struct waiter {
        std::size_t id;
        amount least;
        amount most;
        instant deadline;
    };

    Words words;
    instant now;
    instant paused_until = now;
    std::vector<grant> granted = {};
    std::map<std::size_t, grant> by_id = {};
    std::deque<waiter> line = {};

    // Drops and grants the requests that are due now.
    void serve() {
        std::erase_if(line, [&](waiter const& w) { return w.deadline < now; });
        while (!line.empty() && now >= paused_until) {
            auto const free = words.options.limit - words.counts(granted, now);
            auto const& w = line.front();
            if (free < w.least)
                break;
            granted.push_back({now, std::clamp(free, w.least, w.most)});
            by_id[w.id] = granted.back();
            line.pop_front();
        }
    }
    void run_to(instant end) {
        for (serve(); now < end; serve())
            now += 1ns;
    }
    // Returns when the last one would be granted if it waited for ever and nothing else happened.
    [[nodiscard]] instant turn_of_last() const {
        auto copy = *this;
        auto const id = line.back().id;
        copy.line.back().deadline = instant::max();
        while (!copy.by_id.contains(id))
            copy.run_to(copy.now + 1ns);
        return copy.by_id.at(id).at;
    }
};

// A limiter beside its model, and calls at random.
template <class Limiter, class Words>
class world {
    struct kept {
        std::size_t id;
        instant since;
        typename Limiter::reservation place;
    };
    struct outcome {
        error_code error;
        std::optional<grant> granted;
    };

public:
    world(Words const& words, random_source& random)
        : random_(random),
          limiter_(ctx_, words.options, {.tolerance = 0ns}),
          model_{.words = words, .now = clock::now()} {}

    void run() {
        for (int i = 0; i != 40; ++i)
            step();
        advance(4000);
        take_up();
        for (std::size_t id = 0; id != outcomes_.size(); ++id) {
            auto const& real = outcomes_[id]->granted;
            auto const wanted = model_.by_id.find(id);
            BOOST_TEST_REQUIRE(real.has_value() == (wanted != model_.by_id.end()),
                               "request " << id);
            if (!real)
                continue;
            BOOST_TEST_REQUIRE((real->at == wanted->second.at), "request " << id);
            BOOST_TEST_REQUIRE(real->n == wanted->second.n, "request " << id);
        }
    }

private:
    void step() {
        switch (random_.between(0, 11)) {
            case 0:
            case 1:
            case 2:
                return advance(random_.between(0, 30));
            case 3:
            case 4:
                return enter();
            case 5:
                return give_back();
            case 6:
                return random_.one_in(3) ? pause() : charge();
            default:
                return reserve();
        }
    }
    void advance(weir::duration::rep d) {
        run_for(ctx_, weir::duration(d));
        model_.run_to(clock::now());
    }
    [[nodiscard]] weir::request some() {
        auto const least = random_.between(1, model_.words.options.limit);
        return random_.one_in(4) ? weir::request::between(least, least + random_.between(0, 3))
                                 : weir::request(least);
    }
    [[nodiscard]] weir::patience some_patience() {
        return random_.one_in(2) ? weir::patience()
                                 : weir::patience(weir::duration(random_.between(1, 200)));
    }
    std::size_t add(weir::request const& r, weir::patience wait) {
        auto const id = outcomes_.size();
        outcomes_.push_back(std::make_shared<outcome>());
        auto const length = wait.length_or(weir::forever);
        auto const deadline = length == weir::forever ? instant::max() : model_.now + length;
        model_.line.push_back({id, r.count(), r.max(), deadline});
        return id;
    }
    [[nodiscard]] auto note(std::size_t id) {
        return [to = outcomes_[id]](error_code ec, permit const& p) {
            to->error = ec;
            if (!ec)
                to->granted = {clock::now(), p.count()};
        };
    }
    void reserve() {
        auto const r = some();
        auto const wait = some_patience();
        auto const id = add(r, wait);
        auto const turn = model_.turn_of_last();
        error_code ec;
        auto place = limiter_.reserve(r, wait, ec);
        if (turn > model_.line.back().deadline) {
            BOOST_TEST_REQUIRE((ec == errc::deadline_unreachable), "request " << id);
            BOOST_TEST_REQUIRE((place.retry_after() == turn - model_.now), "request " << id);
            model_.line.pop_back();
            return;
        }
        BOOST_TEST_REQUIRE(!ec, "request " << id << ": " << ec.message());
        BOOST_TEST_REQUIRE((place.at() == turn), "request " << id);
        if (random_.one_in(2))
            place.async_enter(note(id));
        else
            kept_.push_back({id, clock::now(), std::move(place)});
        advance(0);
    }
    void enter() {
        auto const r = some();
        auto const wait = some_patience();
        auto const id = add(r, wait);
        limiter_.async_enter(r, wait, note(id));
        settle(ctx_);
        if (outcomes_[id]->error)
            model_.line.pop_back();
        advance(0);
    }
    // Only one that still waits: the log would be refunded.
    void give_back() {
        auto const waits = [&](kept const& k) {
            return std::ranges::any_of(model_.line, [&](auto const& w) { return w.id == k.id; });
        };
        auto const found = std::ranges::find_if(kept_, waits);
        if (found == kept_.end())
            return;
        std::erase_if(model_.line, [&](auto const& w) { return w.id == found->id; });
        kept_.erase(found);
        advance(0);
    }
    // Within the limit: a debt has its own rules.
    void charge() {
        if (model_.words.counts(model_.granted, model_.now) == model_.words.options.limit)
            return;
        limiter_.charge(1).leave();
        model_.granted.push_back({model_.now, 1});
        advance(0);
        drop_hopeless();
    }
    void pause() {
        auto const end = model_.now + weir::duration(random_.between(1, 50));
        limiter_.pause_until(end);
        model_.paused_until = std::max(model_.paused_until, end);
        advance(0);
        drop_hopeless();
    }
    // A delay makes the limiter examine its queue, and reject what it cannot grant in time.
    void drop_hopeless() {
        take_up();
        std::erase_if(model_.line, [&](auto const& w) {
            return outcomes_[w.id]->error == errc::deadline_unreachable;
        });
        advance(0);
    }
    void take_up() {
        for (auto& [id, since, place] : kept_) {
            auto& to = *outcomes_[id];
            if (auto const p = place.try_enter(to.error))
                to.granted = {since + p.waited(), p.count()};
        }
        std::erase_if(kept_, [](kept const& k) { return !k.place; });
    }

    random_source& random_;
    asio::io_context ctx_;
    Limiter limiter_;
    model<Words> model_;
    std::vector<std::shared_ptr<outcome>> outcomes_;
    std::vector<kept> kept_;
};

template <class Limiter, class Words, class Make>
void agrees_with_model(Make make) {
    for_each_seed(1, 100, [&](random_source& random) {
        world<Limiter, Words> w(Words{make(random)}, random);
        w.run();
    });
}

// Three a window of 1 s; one is used at once.
template <class Limiter>
struct three_a_second {
    explicit three_a_second(weir::queue_options const& queueing = {})
        : calls(ctx, {.limit = 3, .window = 1s}, queueing),
          start(clock::now()),
          one(calls.try_enter()) {}

    [[nodiscard]] std::optional<weir::duration> in(
        typename Limiter::reservation const& place) const {
        auto const at = place.at();
        return at ? std::optional<weir::duration>(*at - start) : std::nullopt;
    }

    asio::io_context ctx;
    Limiter calls;
    instant start;
    permit one;
};

using limiters = boost::mp11::mp_list<sliding_log, sliding_window, fixed_window>;

}  // namespace

BOOST_AUTO_TEST_SUITE(reservation_of_a_window)

static_assert(weir::scheduled_policy<weir::policy::sliding_log> &&
              weir::scheduled_policy<weir::policy::sliding_window> &&
              weir::scheduled_policy<weir::policy::fixed_window>);

BOOST_AUTO_TEST_CASE(agrees_with_the_words_of_a_log) {
    agrees_with_model<sliding_log, log_words>([](random_source& random) {
        return weir::sliding_log_options{
            .limit = random.between(1, 6), .window = weir::duration(random.between(1, 40))};
    });
}

BOOST_AUTO_TEST_CASE(agrees_with_the_words_of_a_window_in_slices) {
    agrees_with_model<sliding_window, slice_words>([](random_source& random) {
        return weir::sliding_window_options{.limit = random.between(1, 6),
                                            .window = weir::duration(random.between(1, 40)),
                                            .slices = random.between(1, 4)};
    });
}

BOOST_AUTO_TEST_CASE(agrees_with_the_words_of_a_fixed_window) {
    using enum weir::window_alignment;
    agrees_with_model<fixed_window, window_words>([](random_source& random) {
        return weir::fixed_window_options{.limit = random.between(1, 6),
                                          .window = weir::duration(random.between(1, 40)),
                                          .alignment = random.one_in(2) ? first_use : epoch};
    });
}

// {2, 2} need two windows, and 4 need two as well; but {2, 2, 2} need three and 6 need two.
BOOST_AUTO_TEST_CASE_TEMPLATE(depends_on_the_amounts_ahead_and_not_on_their_sum, Limiter,
                              limiters) {
    three_a_second<Limiter> w;
    w.one.refund();
    std::vector<typename Limiter::reservation> places;
    std::vector<weir::duration> in;
    for (int i = 0; i != 4; ++i) {
        places.push_back(w.calls.reserve(2));
        in.push_back(w.in(places.back()).value());
    }
    BOOST_TEST((in == std::vector<weir::duration>{0s, 1s, 2s, 3s}));
    places.push_back(w.calls.reserve(1));
    BOOST_TEST((w.in(places.back()) == 3s));
    run_for(w.ctx, 3s);
    for (auto& place : places)
        BOOST_TEST(bool(place.try_enter()));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(is_rejected_only_if_its_exact_turn_is_too_late, Limiter, limiters) {
    three_a_second<Limiter> w;
    auto const first = w.calls.reserve(3);
    auto const second = w.calls.reserve(2);
    BOOST_TEST((w.in(second) == 2s));
    error_code ec;
    auto const late = w.calls.reserve(2, 3s - 1ns, ec);
    BOOST_TEST((ec == errc::deadline_unreachable));
    BOOST_TEST((late.retry_after() == 3s));
    auto const just = w.calls.reserve(2, 3s, ec);
    BOOST_TEST(!ec);
    BOOST_TEST((w.in(just) == 3s));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(moves_up_when_one_ahead_leaves, Limiter, limiters) {
    three_a_second<Limiter> w;
    auto first = w.calls.reserve(3);
    auto second = w.calls.reserve(2);
    BOOST_TEST((w.in(second) == 2s));
    first.give_back();
    auto const third = w.calls.reserve(2);
    BOOST_TEST((w.in(third) == 1s));  // the second was granted at once
    BOOST_TEST(bool(second.try_enter()));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(follows_each_change_of_the_limiter, Limiter, limiters) {
    three_a_second<Limiter> w;
    auto const first = w.calls.reserve(3);
    auto const second = w.calls.reserve(3);
    BOOST_TEST((w.in(second) == 2s));
    // The future of a queue that is examined again is unknown until that has ended.
    w.calls.pause_until(w.start + 1500ms);
    settle(w.ctx);
    auto const paused = w.calls.reserve(3);
    BOOST_TEST((w.in(paused) == 3500ms));
    w.calls.resume();
    settle(w.ctx);
    auto const resumed = w.calls.reserve(3);
    BOOST_TEST((w.in(resumed) == 4s));
    w.calls.configure({.limit = 6, .window = 1s});
    settle(w.ctx);  // 1 and 3 are used now
    auto const configured = w.calls.reserve(3);
    BOOST_TEST((w.in(configured) == 2s));  // 3, 3 at 1 s; 3, 3 at 2 s
}

BOOST_AUTO_TEST_CASE_TEMPLATE(is_computed_again_after_a_charge_and_a_refund, Limiter, limiters) {
    three_a_second<Limiter> w;
    auto const first = w.calls.reserve(3);
    auto charged = w.calls.charge(2);
    run_for(w.ctx, 500ms);
    auto const second = w.calls.reserve(1);
    BOOST_TEST((w.in(second) == 2s));
    auto more = w.calls.charge(3);
    auto const third = w.calls.reserve(1);
    auto const behind = w.in(third);
    more.refund();
    auto const fourth = w.calls.reserve(1);
    BOOST_TEST((w.in(fourth) == 2s));
    BOOST_TEST(behind.value() > 2s);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(makes_the_oldest_leave_in_a_full_queue, Limiter, limiters) {
    three_a_second<Limiter> w({.max_waiting = 2, .full = weir::when_full::evict_oldest});
    auto const first = w.calls.reserve(3);
    auto const second = w.calls.reserve(3);
    error_code ec;
    auto const third = w.calls.reserve(3, 2s, ec);
    BOOST_TEST(!ec);
    BOOST_TEST((w.in(third) == 2s));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(has_no_time_behind_a_chain_or_in_another_order, Limiter, limiters) {
    three_a_second<Limiter> w;
    seats other(w.ctx, {.seats = 1});
    auto big = w.calls.reserve(3);
    w.calls.try_enter().leave();
    auto chain = weir::chain(w.calls.with(3), other);
    bool over = false;
    chain.async_enter([&](error_code, auto&&...) { over = true; });
    settle(w.ctx);
    auto const behind = w.calls.reserve(1);
    BOOST_TEST((behind && !behind.at()));
    run_for(w.ctx, 3s);
    BOOST_TEST(over);
    auto const later = w.calls.reserve(3);
    BOOST_TEST(later.at().has_value());

    three_a_second<Limiter> lifo({.order = weir::queue_order::lifo});
    auto const any = lifo.calls.reserve(3);
    BOOST_TEST((any && !any.at()));
}

BOOST_AUTO_TEST_CASE(can_be_for_one_key_of_a_window) {
    asio::io_context ctx;
    weir::testing::keyed<std::string, weir::sliding_log> clients(ctx, {.limit = 3, .window = 1s});
    auto const start = clock::now();
    auto const one = clients.try_enter("a", 3);
    auto const first = clients.reserve("a", 2);
    auto const other = clients.try_enter("b", 3);
    auto const others = clients.reserve("b", 2);
    auto const second = clients.reserve("a", 2);
    auto const third = clients.reserve("b", 1);
    BOOST_TEST((first.at() == start + 1s && second.at() == start + 2s));
    BOOST_TEST((others.at() == start + 1s && third.at() == start + 1s));
    clients.configure("a", {.limit = 4, .window = 1s});
    settle(ctx);
    auto const fourth = clients.reserve("a", 2);
    BOOST_TEST((fourth.at() == start + 2s));
}

BOOST_AUTO_TEST_SUITE_END()
