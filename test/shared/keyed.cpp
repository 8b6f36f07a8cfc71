#include <weir/shared/keyed.hpp>
#include <weir/shared/memory_store.hpp>
#include <weir/testing.hpp>

#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using support::clock;
using support::run_for;
using support::settle;
using support::visit;
using weir::errc;
namespace asio = boost::asio;

using store = weir::basic_memory_store<weir::testing::timer>;
template <class Key, class Policy = weir::policy::fed>
using keyed = weir::basic_shared_keyed<Key, Policy, asio::any_io_executor, weir::testing::timer>;
using fate = weir::store_conduct::fate;

// Counts the questions by name, on their way to a store.
class counting_store final : public weir::store {
public:
    explicit counting_store(std::shared_ptr<store> to) : to_(std::move(to)) {}

    void async_take(std::string const& name, question const& q, answer_handler handler) override {
        ++asked[name];
        to_->async_take(name, q, std::move(handler));
    }
    void async_give_back(std::string const& name, give_back const& what) override {
        returned[name] += what.count;
        to_->async_give_back(name, what);
    }

    std::map<std::string, int> asked;
    std::map<std::string, weir::amount> returned;

private:
    std::shared_ptr<store> to_;
};

// Two processes at one store, a millisecond away: ten per second and user, five at once.
struct fixture {
    asio::io_context ctx;
    std::shared_ptr<store> server = std::make_shared<store>(ctx);
    std::shared_ptr<counting_store> counts = std::make_shared<counting_store>(server);
    keyed<std::string> here{ctx, counts, "api", options()};
    keyed<std::string> there{ctx, counts, "api", options()};

    fixture() { is_as_far_as(1ms); }

    static weir::shared_options options() {
        return {.rate = {10, 1s},
                .burst = 5,
                .timeout = 50ms,
                .retry = {.initial = 50ms, .max = 500ms, .jitter = 0}};
    }
    void is_as_far_as(weir::duration way, fate f = fate::answered) const {
        server->behave({.there = way / 2, .back = way / 2, .what = f});
    }
    void take_all(std::string const& user) {
        visit const all(there, user, 5);
        run_for(ctx, 1ms);
        BOOST_TEST_REQUIRE(all.granted());
    }
    // All questions fail until the store is unavailable.
    void begin_outage() {
        is_as_far_as(1ms, fate::unreachable);
        visit const v(here, "first"s, 10s);
        run_for(ctx, 2s);
        BOOST_TEST_REQUIRE(here.shared_stats().unavailable);
    }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(shared_keyed, fixture)

BOOST_AUTO_TEST_CASE(permit_comes_after_a_round_trip) {
    visit const guest(here, "ann"s, 2, 1s);
    run_for(ctx, 1ms - 1ns);
    BOOST_TEST(guest.waiting());
    run_for(ctx, 1ns);
    BOOST_TEST(guest.granted());
    BOOST_TEST(guest.seat().count() == 2);
    BOOST_TEST(counts->asked["api:ann"] == 1);
    BOOST_TEST(here.shared_stats().granted == 2);
    BOOST_TEST(here.stats().total.granted == 1u);
}

BOOST_AUTO_TEST_CASE(each_key_has_its_own_bucket_which_all_processes_share) {
    visit const three(here, "ann"s, 3);
    visit const two(there, "ann"s, 2);
    visit const other(here, "bob"s, 5);
    run_for(ctx, 1ms);
    BOOST_TEST(three.granted());
    BOOST_TEST(two.granted());
    BOOST_TEST(other.granted());
    visit const late(there, "ann"s, 1);
    run_for(ctx, 98ms);
    BOOST_TEST(late.waiting());
    run_for(ctx, 3ms);
    BOOST_TEST(late.granted());
}

BOOST_AUTO_TEST_CASE(single_key_asks_one_question_at_a_time_for_all_its_requests) {
    std::vector<visit> crowd;
    for (int i = 0; i != 5; ++i)
        crowd.emplace_back(here, "ann"s, 1);
    run_for(ctx, 1ms);
    BOOST_TEST(crowd[0].granted());
    BOOST_TEST(crowd[1].waiting());
    run_for(ctx, 1ms);
    for (auto const& v : crowd)
        BOOST_TEST(v.granted());
    BOOST_TEST(counts->asked["api:ann"] == 2);
}

BOOST_AUTO_TEST_CASE(questions_of_keys_do_not_wait_for_each_other) {
    std::vector<visit> crowd;
    for (int i = 0; i != 100; ++i)
        crowd.emplace_back(here, std::to_string(i), 1);
    run_for(ctx, 1ms);
    for (auto const& v : crowd)
        BOOST_TEST(v.granted());
    BOOST_TEST(here.shared_stats().questions == 100u);
}

BOOST_AUTO_TEST_CASE(request_without_patience_is_rejected_since_it_cannot_be_asked_for) {
    BOOST_TEST(!here.try_enter("ann"));
    visit const hasty(here, "ann"s, 1, 0s);
    visit const greedy(here, "ann"s, 6);
    settle(ctx);
    BOOST_TEST(hasty.rejected(errc::timed_out));
    BOOST_TEST(greedy.rejected(errc::exceeds_capacity));
    BOOST_TEST(here.shared_stats().questions == 0u);
}

// 100,000 requests in a second: the burst and ten more are granted, and each grant takes a question or two.
BOOST_AUTO_TEST_CASE(flood_of_one_key_asks_about_once_per_grant) {
    std::int64_t granted = 0;
    std::int64_t rejected = 0;
    for (int ms = 0; ms != 1'000; ++ms) {
        for (int i = 0; i != 100; ++i)
            here.async_enter("mallory"s, 20ms, [&](weir::error_code ec, weir::permit const&) {
                ++(ec ? rejected : granted);
            });
        run_for(ctx, 1ms);
    }
    run_for(ctx, 1s);
    BOOST_TEST(granted >= 14);
    BOOST_TEST(granted <= 15);
    BOOST_TEST(granted + rejected == 100'000);
    BOOST_TEST(counts->asked["api:mallory"] <= 2 * 15);
}

BOOST_AUTO_TEST_CASE(rejection_is_remembered_until_its_time_and_no_longer) {
    take_all("ann");
    visit const short_of_time(here, "ann"s, 1, 50ms);
    run_for(ctx, 1ms);
    BOOST_TEST(short_of_time.rejected(errc::deadline_unreachable));
    BOOST_TEST(counts->asked["api:ann"] == 2);
    auto const back = short_of_time.seat().retry_after();
    BOOST_TEST_REQUIRE(back.has_value());
    visit const again(here, "ann"s, 1, 50ms);
    settle(ctx);
    BOOST_TEST(again.rejected(errc::deadline_unreachable));
    BOOST_TEST(counts->asked["api:ann"] == 2);
    run_for(ctx, *back);
    visit const in_time(here, "ann"s, 1, 50ms);
    run_for(ctx, 1ms);
    BOOST_TEST(in_time.granted());
}

BOOST_AUTO_TEST_CASE(refund_goes_to_the_store_and_ends_the_rejection) {
    visit const all(here, "ann"s, 5);
    run_for(ctx, 1ms);
    visit const one(here, "ann"s, 1, 50ms);
    run_for(ctx, 1ms);
    BOOST_TEST(one.rejected(errc::deadline_unreachable));
    all.seat().settle(2);
    run_for(ctx, 1ms);
    BOOST_TEST(counts->returned["api:ann"] == 3);
    visit const next(here, "ann"s, 1, 50ms);
    run_for(ctx, 1ms);
    BOOST_TEST(next.granted());
}

BOOST_AUTO_TEST_CASE(debt_is_paid_at_the_store) {
    visit const one(here, "ann"s, 1);
    run_for(ctx, 1ms);
    one.seat().settle(10);
    run_for(ctx, 5ms);
    visit const other(there, "ann"s, 1, 200ms);
    run_for(ctx, 5ms);
    BOOST_TEST(other.rejected(errc::deadline_unreachable));
    run_for(ctx, 1s);
    visit const later(there, "ann"s, 1, 200ms);
    run_for(ctx, 5ms);
    BOOST_TEST(later.granted());
}

BOOST_AUTO_TEST_CASE(grant_that_no_request_awaits_is_given_back) {
    for (auto const kind : {asio::cancellation_type::terminal, asio::cancellation_type::partial,
                            asio::cancellation_type::total}) {
        asio::cancellation_signal stop;
        visit const guest;
        here.async_enter("ann"s, 5, asio::bind_cancellation_slot(stop.slot(), guest.callback()));
        stop.emit(kind);
        run_for(ctx, 3ms);
        BOOST_TEST(guest.rejected(asio::error::operation_aborted));
        visit const next(there, "ann"s, 5);
        run_for(ctx, 1ms);
        BOOST_TEST(next.granted());
        run_for(ctx, 1s);
    }
    BOOST_TEST(counts->returned["api:ann"] == 15);
}

BOOST_AUTO_TEST_CASE(reply_after_its_time_is_given_back) {
    is_as_far_as(200ms);
    visit const guest(here, "ann"s, 5, 60ms);
    run_for(ctx, 62ms);
    BOOST_TEST(guest.rejected(errc::timed_out));
    run_for(ctx, 1s);
    BOOST_TEST(here.shared_stats().late >= 1u);
    BOOST_TEST(counts->returned["api:ann"] >= 5);
    is_as_far_as(1ms);
    visit const next(there, "ann"s, 5);
    run_for(ctx, 1ms);
    BOOST_TEST(next.granted());
}

BOOST_AUTO_TEST_CASE(limiter_ends_at_any_step) {
    for (weir::duration step = 0ms; step <= 120ms; step += 500us) {
        std::optional<keyed<std::string>> one(std::in_place, ctx, counts, "end", options());
        std::vector<visit> crowd;
        for (int i = 0; i != 8; ++i)
            crowd.emplace_back(*one, std::to_string(i % 2), 1);
        run_for(ctx, step);
        one.reset();
        run_for(ctx, 300ms);
        for (auto const& v : crowd)
            BOOST_TEST((v.granted() || v.rejected(errc::closed)));
        run_for(ctx, 1s);
    }
    for (weir::duration step = 0ms; step <= 2ms; step += 500us) {
        asio::io_context other;
        auto const its = std::make_shared<store>(other);
        its->behave({.there = 500us, .back = 500us});
        auto one = std::make_unique<keyed<std::string>>(other, its, "end", options());
        visit const v(*one, "x"s, 1);
        run_for(other, step);
        // The context ends first in half of the cases: see the order of destruction below.
        if (step == 1ms)
            one.reset();
    }
}

BOOST_AUTO_TEST_CASE(keys_without_state_are_forgotten) {
    keyed<std::uint64_t> many(ctx, counts, "many", options(), {.max_keys = 200, .shards = 1});
    int granted = 0;
    for (std::uint64_t k = 0; k != 10'000; ++k) {
        many.async_enter(k, 1s, [&](weir::error_code ec, weir::permit const&) { granted += !ec; });
        run_for(ctx, 1ms);
    }
    BOOST_TEST(granted == 10'000);
    BOOST_TEST(many.stats().keys <= 200u);
}

BOOST_AUTO_TEST_CASE(keys_beyond_the_most_are_rejected_or_share_one_state) {
    keyed<std::uint64_t> few(ctx, counts, "few", options(), {.max_keys = 1, .shards = 1});
    visit const first(few, 1u, 1s);
    visit const second(few, 2u, 1s);
    run_for(ctx, 1ms);
    BOOST_TEST(first.granted());
    BOOST_TEST(second.rejected(errc::too_many_keys));
    keyed<std::uint64_t> mixed(
        ctx, counts, "mixed", options(),
        {.max_keys = 1, .no_place = weir::when_no_place::share, .shards = 1});
    visit const own(mixed, 1u, 1s);
    visit const others(mixed, 2u, 3, 1s);
    visit const more(mixed, 3u, 3, 50ms);
    run_for(ctx, 3ms);
    BOOST_TEST(own.granted());
    BOOST_TEST(others.granted());
    BOOST_TEST(!more.granted());
    BOOST_TEST(counts->asked["mixed:"] == 2);
}

BOOST_AUTO_TEST_CASE(outage_of_one_key_is_an_outage_of_all) {
    begin_outage();
    BOOST_TEST((here.shared_stats().mode == weir::shared_mode::closed));
    auto const asked = here.shared_stats().questions;
    std::vector<visit> crowd;
    for (int i = 0; i != 100; ++i)
        crowd.emplace_back(here, std::to_string(i), 1, 10ms);
    run_for(ctx, 20ms);
    int unavailable = 0;
    for (auto const& v : crowd)
        unavailable += v.rejected(errc::unavailable);
    BOOST_TEST(unavailable == 100);
    BOOST_TEST(here.shared_stats().questions <= asked + 1);
    is_as_far_as(1ms);
    run_for(ctx, 500ms);
    visit const probe(here, "x"s, 1, 10ms);
    run_for(ctx, 10ms);
    BOOST_TEST(probe.granted());
    BOOST_TEST((here.shared_stats().mode == weir::shared_mode::store));
    visit const next(here, "y"s, 1, 10ms);
    run_for(ctx, 10ms);
    BOOST_TEST(next.granted());
}

BOOST_AUTO_TEST_CASE(outage_begins_after_a_second_of_silence_and_waiting_requests_learn_of_it) {
    is_as_far_as(1ms, fate::answer_lost);
    std::vector<visit> crowd;
    for (int i = 0; i != 40; ++i)
        crowd.emplace_back(here, std::to_string(i), 1, 10s);
    run_for(ctx, 990ms);
    for (auto const& v : crowd)
        BOOST_TEST(v.waiting());
    run_for(ctx, 60ms);
    for (auto const& v : crowd)
        BOOST_TEST(v.rejected(errc::unavailable));
    BOOST_TEST(here.shared_stats().outages == 1u);
}

BOOST_AUTO_TEST_CASE(questions_that_fail_together_are_one_failure) {
    is_as_far_as(1ms, fate::unreachable);
    std::vector<visit> crowd;
    for (int i = 0; i != 40; ++i)
        crowd.emplace_back(here, std::to_string(i), 1, 10s);
    run_for(ctx, 40ms);
    BOOST_TEST(here.shared_stats().outages == 0u);
    is_as_far_as(1ms);
    run_for(ctx, 100ms);
    for (auto const& v : crowd)
        BOOST_TEST(v.granted());
}

BOOST_AUTO_TEST_CASE(fail_open_grants_all_and_returns_to_the_store) {
    auto open = options();
    open.on_failure = weir::fail_open();
    here.configure(open);
    begin_outage();
    std::vector<visit> crowd;
    for (int i = 0; i != 100; ++i)
        crowd.emplace_back(here, "ann"s, 1, 1ms);
    settle(ctx);
    for (auto const& v : crowd)
        BOOST_TEST(v.granted());
    BOOST_TEST(here.shared_stats().bypassed_permits >= 100);
    is_as_far_as(1ms);
    for (int i = 0; i != 10; ++i) {
        visit const one(here, "ann"s, 1, 1ms);
        run_for(ctx, 100ms);
        BOOST_TEST(one.over());
    }
    BOOST_TEST((here.shared_stats().mode == weir::shared_mode::store));
}

BOOST_AUTO_TEST_CASE(fail_local_grants_each_key_its_share) {
    auto local = options();
    local.on_failure = weir::fail_local{0.4};
    here.configure(local);
    begin_outage();
    for (auto const& user : {"ann"s, "bob"s}) {
        std::vector<visit> crowd;
        for (int i = 0; i != 5; ++i)
            crowd.emplace_back(here, user, 1, 1ms);
        settle(ctx);
        int granted = 0;
        for (auto const& v : crowd)
            granted += v.granted();
        BOOST_TEST(granted == 2);  // 0.4 of the burst
    }
    run_for(ctx, 250ms);  // 0.4 of the rate is one in 250 ms
    visit const next(here, "ann"s, 1, 1ms);
    run_for(ctx, 2ms);
    BOOST_TEST(next.granted());
}

BOOST_AUTO_TEST_CASE(modes_are_reported) {
    std::vector<weir::shared_mode> modes;
    for (int i = 0; i != 2; ++i)
        here.async_wait_mode_change([&](weir::error_code ec, weir::mode_change const& change) {
            if (!ec)
                modes.push_back(change.after);
        });
    begin_outage();
    is_as_far_as(1ms);
    run_for(ctx, 500ms);
    visit const probe(here, "x"s, 1, 10ms);
    run_for(ctx, 10ms);
    BOOST_TEST_REQUIRE(modes.size() == 2u);
    BOOST_TEST((modes[0] == weir::shared_mode::closed));
    BOOST_TEST((modes[1] == weir::shared_mode::store));
}

BOOST_AUTO_TEST_CASE(nothing_is_asked_during_a_pause) {
    here.pause_for(100ms);
    visit const guest(here, "ann"s, 1, 1s);
    run_for(ctx, 99ms);
    BOOST_TEST(here.shared_stats().questions == 0u);
    run_for(ctx, 3ms);
    BOOST_TEST(guest.granted());
}

BOOST_AUTO_TEST_CASE(single_key_can_have_another_rate) {
    auto vip = options();
    vip.burst = 100;
    here.configure("vip"s, vip);
    visit const many(here, "vip"s, 100, 1s);
    visit const normal(here, "ann"s, 6, 1s);
    run_for(ctx, 1ms);
    BOOST_TEST(many.granted());
    BOOST_TEST(normal.rejected(errc::exceeds_capacity));
    BOOST_TEST(*here.options("vip"s).burst == 100);
    here.reset("vip"s);
    BOOST_TEST(*here.options("vip"s).burst == 5);
}

BOOST_AUTO_TEST_CASE(closed_limiter_rejects_all) {
    take_all("ann");
    visit const guest(here, "ann"s, 1, 10s);
    run_for(ctx, 2ms);
    here.close();
    settle(ctx);
    BOOST_TEST(guest.rejected(errc::closed));
    visit const next(here, "ann"s, 1, 10s);
    settle(ctx);
    BOOST_TEST(next.rejected(errc::closed));
}

BOOST_AUTO_TEST_CASE(options_are_checked) {
    auto const make = [&](weir::shared_options const& o, std::string const& name = "x",
                          weir::queue_options const& queue = {}) {
        keyed<std::string> const made(ctx, counts, name, o, {}, queue);
    };
    auto fetching = options();
    fetching.prefetch = 1;
    BOOST_CHECK_THROW(make(fetching), std::invalid_argument);
    BOOST_CHECK_THROW(make(options(), "a:b"), std::invalid_argument);
    BOOST_CHECK_THROW(make(options(), std::string(191, 'a')), std::invalid_argument);
    BOOST_CHECK_THROW(make(options(), ""), std::invalid_argument);
    BOOST_CHECK_THROW(make(options(), "x", {.dry_run = true}), std::invalid_argument);
    BOOST_CHECK_THROW(here.configure(fetching), std::invalid_argument);
    make(options(), std::string(190, 'a'));
    // The memory store of this test supports no logs.
    using logs = keyed<std::string, weir::policy::fed_log>;
    BOOST_CHECK_THROW(logs(ctx, counts, "logs", {.rate = {10, 1s}}), std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(log_grants_its_number_in_any_window) {
    keyed<std::string, weir::policy::fed_log> log(ctx, server, "log", {.rate = {3, 1s}});
    std::vector<visit> crowd;
    for (int i = 0; i != 3; ++i)
        crowd.emplace_back(log, "ann"s, 1, 1s);
    run_for(ctx, 5ms);
    for (auto const& v : crowd)
        BOOST_TEST(v.granted());
    visit const fourth(log, "ann"s, 1, 900ms);
    run_for(ctx, 2ms);
    BOOST_TEST(fourth.rejected(errc::deadline_unreachable));
}

// The names at a store, by their description.
BOOST_AUTO_TEST_CASE(names_of_keys) {
    using weir::detail::name_of_key;
    BOOST_TEST(name_of_key("api", "ann"s) == "api:ann");
    BOOST_TEST(name_of_key("api", 192u) == "api:192");
    BOOST_TEST(name_of_key("api", -1) == "api:-1");
    BOOST_TEST(name_of_key("api", "2001:db8::1"s) == "api:2001:db8::1");
    BOOST_TEST(name_of_key("api", std::string(64, 'x')) == "api:" + std::string(64, 'x'));
    std::vector<std::string> hashed;
    for (auto const& key : {""s, std::string(65, 'x'), "#"s, "a b"s, "a\n"s, "{a"s, "a}"s, "\x7f"s,
                            "\xc3\xa9"s, std::string(1, '\0'), std::string(2, '\0')})
        hashed.push_back(name_of_key("api", key));
    for (auto const& name : hashed) {
        BOOST_TEST(name.size() == 4u + 1 + 32);
        BOOST_TEST(name.starts_with("api:#"));
        BOOST_TEST(name.find_first_not_of("0123456789abcdef", 5) == std::string::npos);
    }
    std::ranges::sort(hashed);
    BOOST_TEST((std::ranges::adjacent_find(hashed) == hashed.end()));
    BOOST_TEST(name_of_key("api", "\n"s) == name_of_key("api", "\n"s));
    BOOST_TEST(name_of_key("api", "\n"s).substr(4) != name_of_key("web", "\n"s).substr(4));
}

// Several processes with random requests, latencies, losses and cancellations: no key gets more than its burst and its
// rate, in any time interval, with the time limit of a reply added. That is the documented bound.
BOOST_AUTO_TEST_CASE(no_key_exceeds_its_rate_in_any_interval) {
    support::for_each_seed(1, 60, [&](support::random_source& random) {
        auto const below = [&](std::int64_t n) {
            return static_cast<std::uint64_t>(random.between(0, n - 1));
        };
        asio::io_context world;
        auto const its = std::make_shared<store>(world);
        weir::shared_options const rule{
            .rate = {20, 1s}, .burst = 4, .timeout = 30ms, .retry = {.initial = 10ms, .max = 50ms}};
        std::vector<std::unique_ptr<keyed<std::uint64_t>>> processes;
        for (int i = 0; i != 3; ++i)
            processes.push_back(std::make_unique<keyed<std::uint64_t>>(
                world, its, "api", rule, weir::keyed_options{.max_keys = 64, .shards = 1}));
        struct use {
            clock::time_point at;
            weir::amount count;
        };
        std::map<std::uint64_t, std::vector<use>> uses;
        for (int step = 0; step != 1'500; ++step) {
            if (random.one_in(40)) {
                auto const way = std::chrono::milliseconds(below(45));
                its->behave({.there = way,
                             .back = std::chrono::milliseconds(below(20)),
                             .what = random.one_in(6)   ? fate::answer_lost
                                     : random.one_in(6) ? fate::unreachable
                                                        : fate::answered});
            }
            auto& at = processes[below(3)];
            if (random.one_in(150))
                at = std::make_unique<keyed<std::uint64_t>>(world, its, "api", rule);
            auto const key = below(3);
            auto const n = static_cast<weir::amount>(1 + below(3));
            at->async_enter(key, n, std::chrono::milliseconds(below(300)),
                            [&uses, key](weir::error_code ec, weir::permit p) {
                                if (!ec)
                                    uses[key].push_back({clock::now(), p.count()});
                                static_cast<void>(p);
                            });
            if (random.one_in(30))
                at->cancel(key);
            run_for(world, std::chrono::milliseconds(below(12)));
        }
        for (auto const& [key, all] : uses) {
            BOOST_TEST_REQUIRE(!all.empty());
            for (std::size_t i = 0; i != all.size(); ++i) {
                weir::amount sum = 0;
                for (std::size_t j = i; j != all.size(); ++j) {
                    sum += all[j].count;
                    auto const d = all[j].at - all[i].at;
                    auto const most = 4 + 20 * std::chrono::duration<double>(d + 30ms).count();
                    if (static_cast<double>(sum) > most + 1e-6)
                        BOOST_FAIL("key " << key << ": " << sum << " in " << d.count() << " ns");
                }
            }
        }
        processes.clear();
        run_for(world, 1s);
    });
}

BOOST_AUTO_TEST_SUITE_END()
