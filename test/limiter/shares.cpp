#include <weir/adaptive_seats.hpp>
#include <weir/any_limiter.hpp>
#include <weir/chain.hpp>
#include <weir/keyed.hpp>
#include <weir/shared/memory_store.hpp>
#include <weir/shared/seats.hpp>

#include "support/order_oracle.hpp"
#include "support/random.hpp"
#include "support/says.hpp"
#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace support;
using weir::amount;
using weir::errc;
using weir::permit;
using weir::queue_options;
using weir::queue_order;
using weir::request;
using weir::share_stats;
using weir::when_full;

// Examples of seats shared among partitions, calculated by hand, and a comparison with the definition of
// `queue_order::shares`.

namespace {

constexpr auto live = weir::partition_flow("live");
constexpr auto batch = weir::partition_flow("batch");

request of(std::uint64_t key, amount n = 1) {
    return {n, {.flow = key}};
}

queue_options sharing(weir::partitions const& all) {
    return {.order = queue_order::shares, .partitions = all};
}

share_stats share_of(auto const& limiter, std::string const& name) {
    for (auto const& one : limiter.shares()) {
        if (one.partition.name() == name)
            return one;
    }
    BOOST_ERROR("no partition " << name);
    return {};
}

// Ten seats: seven for `live` and three for `batch`. Requests are numbered in the order of their arrival.
struct canteen {
    explicit canteen(queue_options options = sharing({{"live", 70}, {"batch", 30}}),
                     amount seats = 10)
        : kitchen(ctx, {.seats = seats}, options) {}

    std::vector<permit> take(std::uint64_t key, int times) {
        std::vector<permit> all;
        for (int i = 0; i != times; ++i) {
            all.push_back(kitchen.try_enter(of(key)));
            BOOST_TEST(bool(all.back()));
        }
        return all;
    }
    void come(request const& r) {
        guests.emplace_back(kitchen, r);
        settle(ctx);
    }
    // The numbers of the requests that were granted since the last call.
    std::string granted() {
        settle(ctx);
        std::string now;
        seen.resize(guests.size());
        for (std::size_t i = 0; i != guests.size(); ++i) {
            if (guests[i].granted() && !seen[i]) {
                now += std::to_string(i);
                seen[i] = true;
            }
        }
        return now;
    }
    std::string after(permit& home) {
        home.leave();
        return granted();
    }

    asio::io_context ctx;
    seats kitchen;
    std::vector<visit> guests;
    std::vector<bool> seen;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(limiter_shares)

BOOST_AUTO_TEST_CASE(a_partition_borrows_unused_seats) {
    canteen c;
    auto const all = c.take(batch, 10);
    BOOST_TEST(!c.kitchen.try_enter(of(batch)));
    BOOST_TEST(share_of(c.kitchen, "batch").share == 3);
    BOOST_TEST(share_of(c.kitchen, "batch").in_use == 10);
    BOOST_TEST(share_of(c.kitchen, "live").share == 7);
    BOOST_TEST(share_of(c.kitchen, "live").in_use == 0);
}

// Batch holds all ten. Requests 0 and 1 are of batch, 2 and 3 of live, and 4 is of batch.
BOOST_AUTO_TEST_CASE(a_lent_seat_passes_first_to_a_partition_below_its_share) {
    canteen c;
    auto held = c.take(batch, 10);
    for (auto const key : {batch, batch, live, live, batch})
        c.come(of(key));
    BOOST_TEST(share_of(c.kitchen, "live").waiting == 2U);
    BOOST_TEST(share_of(c.kitchen, "batch").waiting_for == 3);
    BOOST_TEST(c.after(held[0]) == "2");
    BOOST_TEST(c.after(held[1]) == "3");
    BOOST_TEST(c.after(held[2]) == "0");  // borrows: batch holds 7 others
    BOOST_TEST(c.after(held[3]) == "1");
    BOOST_TEST(c.after(held[4]) == "4");
}

// Batch holds its 3 and live its 7. With one more seat live would borrow; batch, after its release, would not.
BOOST_AUTO_TEST_CASE(a_partition_at_its_share_waits_for_one_below) {
    canteen c;
    auto lives = c.take(live, 7);
    auto batches = c.take(batch, 3);
    c.come(of(live));
    c.come(of(batch));
    BOOST_TEST(c.after(batches[0]) == "1");
    BOOST_TEST(c.after(lives[0]) == "0");
}

// Of 7 seats, 3 are the share of batch, 3 the share of live, and one is left over.
BOOST_AUTO_TEST_CASE(shares_are_rounded_down_and_the_first_request_gets_the_rest) {
    canteen c(sharing({{"live", 50}, {"batch", 50}}), 7);
    auto lives = c.take(live, 4);
    auto batches = c.take(batch, 3);
    BOOST_TEST(share_of(c.kitchen, "live").share == 3);
    c.come(of(batch));
    c.come(of(live));
    BOOST_TEST(c.after(lives[0]) == "0");  // both would borrow: the first arrival is granted
    BOOST_TEST(c.after(batches[0]) == "1");
}

BOOST_AUTO_TEST_CASE(a_newcomer_overtakes_requests_that_borrow_and_none_that_fits) {
    canteen c;
    auto held = c.take(batch, 8);
    c.come(of(batch, 3));  // 0 would borrow, but only 2 are free
    BOOST_TEST(c.granted() == "");
    BOOST_TEST(!c.kitchen.try_enter(of(batch)));
    auto const now = c.kitchen.try_enter(of(live));
    BOOST_TEST(bool(now));
    c.come(of(live, 3));  // 1 fits, and waits for lent seats
    BOOST_TEST(!c.kitchen.try_enter(of(live)));
    c.come(of(live));  // 2 could have a seat
    BOOST_TEST(c.granted() == "");
    BOOST_TEST(c.after(held[0]) == "");
    BOOST_TEST(c.after(held[1]) == "1");
    BOOST_TEST(c.after(held[2]) == "2");
    BOOST_TEST(c.after(held[3]) == "");
    BOOST_TEST(c.after(held[4]) == "");
    BOOST_TEST(c.after(held[5]) == "0");
}

// Request 0 is for more than the share of batch, and 1 arrives after it.
BOOST_AUTO_TEST_CASE(requests_of_one_partition_are_granted_in_arrival_order) {
    canteen c;
    auto lives = c.take(live, 7);
    c.come(of(batch, 4));
    c.come(of(batch));
    BOOST_TEST(c.granted() == "");
    BOOST_TEST(!c.kitchen.try_enter(of(batch)));
    BOOST_TEST(c.after(lives[0]) == "0");
    BOOST_TEST(c.after(lives[1]) == "1");
}

BOOST_AUTO_TEST_CASE(requests_of_no_partition_only_borrow) {
    canteen c;
    auto others = c.take(weir::partition_flow("nobody"), 5);
    auto plain = c.take({}, 5);
    c.come(1);
    c.come(of(weir::partition_flow("nobody")));
    c.come(weir::request::between(1, 3));  // a range has no flow
    c.come(of(batch));
    BOOST_TEST(c.after(plain[0]) == "3");
    BOOST_TEST(c.after(plain[1]) == "0");
    BOOST_TEST(c.after(others[1]) == "1");
    BOOST_TEST(c.after(others[2]) == "2");
    BOOST_TEST(c.guests[2].seat().count() == 1);
}

BOOST_AUTO_TEST_CASE(after_a_timeout_or_a_cancellation_the_next_request_is_granted) {
    canteen c;
    auto held = c.take(batch, 9);
    c.guests.emplace_back(c.kitchen, of(live, 2), 1s);  // 0 fits, and waits for one more seat
    asio::cancellation_signal stop;
    c.guests.emplace_back();
    c.kitchen.async_enter(of(live, 2),
                          asio::bind_cancellation_slot(stop.slot(), c.guests[1].callback()));
    c.come(of(batch));
    BOOST_TEST(c.granted() == "");
    run_for(c.ctx, 2s);
    BOOST_TEST(c.guests[0].rejected(errc::timed_out));
    BOOST_TEST(c.guests[2].waiting());
    stop.emit(asio::cancellation_type::terminal);
    BOOST_TEST(c.granted() == "2");
}

BOOST_AUTO_TEST_CASE(permits_count_for_their_partition_until_released_in_any_way) {
    canteen c;
    auto const in_use = [&](char const* name) { return share_of(c.kitchen, name).in_use; };
    auto four = c.kitchen.try_enter(of(batch, 4));
    auto one = four.split(1);
    BOOST_TEST(in_use("batch") == 4);
    four.settle(5);
    BOOST_TEST(in_use("batch") == 6);
    four.settle(2);
    BOOST_TEST(in_use("batch") == 3);
    four.merge(std::move(one));
    BOOST_TEST(in_use("batch") == 3);
    auto other = c.kitchen.try_enter(of(live, 2));
    BOOST_CHECK_EXCEPTION(
        four.merge(std::move(other)), std::invalid_argument,
        says("weir::permit: cannot merge permits of different keys or partitions"));
    BOOST_TEST(in_use("live") == 2);
    other.refund();
    four.leave();
    BOOST_TEST(in_use("live") == 0);
    BOOST_TEST(in_use("batch") == 0);

    c.kitchen.async_enter(of(live, 3), [](weir::error_code, permit) {});  // destroyed at once
    settle(c.ctx);
    BOOST_TEST(in_use("live") == 0);
    BOOST_TEST(c.kitchen.stats().remaining == 10);
}

// Both hold their shares. Requests 0 and 1 are of live, 2 and 3 of batch.
BOOST_AUTO_TEST_CASE(a_full_queue_evicts_from_the_partition_furthest_beyond_its_share) {
    auto options = sharing({{"live", 70}, {"batch", 30}});
    options.max_waiting = 4;
    options.full = when_full::evict_oldest;
    canteen c(options);
    auto const lives = c.take(live, 7);
    auto const batches = c.take(batch, 3);
    for (auto const key : {live, live, batch, batch})
        c.come(of(key));
    c.come(of(batch));  // with it (request 4), batch is 3 beyond its share, live 2
    BOOST_TEST(c.guests[2].rejected(errc::shed));
    c.come(of(live, 3));  // with it (request 5), live is 5 beyond its share, batch 2
    BOOST_TEST(c.guests[0].rejected(errc::shed));
    c.come(of(batch));  // with it, batch is 3 beyond its share, live 4
    BOOST_TEST(c.guests[1].rejected(errc::shed));
    BOOST_TEST(c.kitchen.stats().waiting == 4U);
    BOOST_TEST(c.kitchen.stats().shed == 3U);
}

// The queue is full. Its only request is of batch, which stays within its share.
BOOST_AUTO_TEST_CASE(
    a_newcomer_furthest_beyond_its_share_is_rejected_if_its_partition_has_no_waiting_request) {
    auto options = sharing({{"live", 70}, {"batch", 30}});
    options.max_waiting = 1;
    options.full = when_full::evict_oldest;
    canteen c(options);
    auto lives = c.take(live, 9);
    auto const last = c.take(batch, 1);
    c.come(of(batch));  // request 0 fits: batch would hold 2 of its 3
    c.come(of(live));   // live would be 3 beyond its share
    BOOST_TEST(c.guests[1].rejected(errc::queue_full));
    BOOST_TEST(c.after(lives[0]) == "0");
}

BOOST_AUTO_TEST_CASE(shares_follow_the_number_of_seats) {
    canteen c;
    auto held = c.take(batch, 1);
    c.kitchen.configure({.seats = 20});
    BOOST_TEST(share_of(c.kitchen, "batch").share == 6);
    BOOST_TEST(share_of(c.kitchen, "batch").in_use == 1);
    c.kitchen.configure({.seats = 3});
    BOOST_TEST(share_of(c.kitchen, "batch").share == 0);
    BOOST_TEST(share_of(c.kitchen, "live").share == 2);
}

// As with aimd: the release of a successful permit adds one seat, while at least half of the seats are in use.
BOOST_AUTO_TEST_CASE(shares_follow_the_number_of_adaptive_seats) {
    asio::io_context ctx;
    weir::testing::limiter<weir::adaptive_seats> kitchen(
        ctx,
        weir::aimd_options{
            .seats = 9, .min = 1, .max = 20, .slow_start = 0, .timeout = 1s, .samples = 1},
        sharing({{"live", 70}, {"batch", 30}}));
    BOOST_TEST(share_of(kitchen, "live").share == 6);
    BOOST_TEST(share_of(kitchen, "batch").share == 2);
    auto six = kitchen.try_enter(of(live, 6));
    auto three = kitchen.try_enter(of(batch, 3));
    visit guest(kitchen, of(batch));
    visit other(kitchen, of(live));
    run_for(ctx, 10ms);
    BOOST_TEST(guest.waiting());
    BOOST_TEST(other.waiting());
    auto one = six.split(1);  // live holds 6 of 6
    one.leave();              // there are now 10, of which live has a share of 7 and holds 5
    settle(ctx);
    BOOST_TEST(kitchen.stats().capacity == 10);
    BOOST_TEST(share_of(kitchen, "live").share == 7);
    BOOST_TEST(share_of(kitchen, "batch").share == 3);
    BOOST_TEST(other.granted());
    BOOST_TEST(guest.granted());
}

BOOST_AUTO_TEST_CASE(partitions_can_change_and_keep_their_permits) {
    canteen c;
    auto batches = c.take(batch, 6);
    auto const lives = c.take(live, 4);
    c.come(of(live, 2));
    c.come(of(batch));
    c.kitchen.configure_queue([](queue_options& o) {
        o.partitions = {{"new", 20}, {"batch", 80}};
    });
    BOOST_TEST(c.kitchen.shares().size() == 2U);
    BOOST_TEST(share_of(c.kitchen, "batch").share == 8);
    BOOST_TEST(share_of(c.kitchen, "batch").in_use == 6);
    BOOST_TEST(share_of(c.kitchen, "new").in_use == 0);
    BOOST_TEST(c.after(batches[0]) == "1");  // and live has no share any more
    c.kitchen.configure_queue([](queue_options& o) { o.partitions = {{"live", 100}}; });
    BOOST_TEST(share_of(c.kitchen, "live").in_use == 4);
    BOOST_TEST(share_of(c.kitchen, "live").waiting == 1U);
    batches[1].leave();
    BOOST_TEST(c.after(batches[2]) == "0");
}

// Request 0 blocks 1 until 1 fits into its share.
BOOST_AUTO_TEST_CASE(a_change_of_partitions_applies_to_waiting_requests) {
    canteen c(sharing({{"live", 0}, {"batch", 100}}));
    auto const eight = c.kitchen.try_enter(of(batch, 8));
    c.come(of(batch, 3));
    c.come(of(live, 2));
    BOOST_TEST(c.granted() == "");
    c.kitchen.configure_queue([](queue_options& o) {
        o.partitions = {{"live", 50}, {"batch", 50}};
    });
    BOOST_TEST(c.granted() == "1");
}

BOOST_AUTO_TEST_CASE(a_new_partition_can_reuse_the_slot_of_a_removed_one) {
    canteen c(
        sharing({{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}, {"e", 1}, {"f", 1}, {"g", 1}, {"h", 1}}));
    std::vector<permit> held;
    for (std::string const name : {"a", "b", "c", "d", "e", "f", "g", "h"})
        held.push_back(c.kitchen.try_enter(of(weir::partition_flow(name))));
    auto const others = c.kitchen.try_enter(2);
    c.come(of(weir::partition_flow("h")));
    c.kitchen.configure_queue([](queue_options& o) { o.partitions = {{"b", 50}, {"new", 50}}; });
    BOOST_TEST(share_of(c.kitchen, "b").in_use == 1);
    // Inherited from a removed partition.
    BOOST_TEST(share_of(c.kitchen, "new").in_use == 1);
    BOOST_TEST(share_of(c.kitchen, "new").waiting == 1U);
    BOOST_TEST(c.after(held.front()) == "0");
    BOOST_TEST(share_of(c.kitchen, "new").in_use == 2);
    held.clear();
    c.guests.clear();
    BOOST_TEST(share_of(c.kitchen, "b").in_use == 0);
    BOOST_TEST(share_of(c.kitchen, "new").in_use == 0);
}

BOOST_AUTO_TEST_CASE(partitions_are_listed_in_the_order_of_the_options) {
    auto const names = [](canteen const& c) {
        std::string all;
        for (auto const& one : c.kitchen.shares())
            all.append(one.partition.name()).append(" ");
        return all;
    };
    canteen c(sharing({{"live", 50}, {"batch", 30}, {"admin", 20}}));
    BOOST_TEST(names(c) == "live batch admin ");
    auto const held = c.take(batch, 1);
    c.kitchen.configure_queue([](queue_options& o) {
        o.partitions = {{"new", 10}, {"admin", 10}, {"live", 80}};
    });
    BOOST_TEST(names(c) == "new admin live ");
    c.kitchen.configure_queue([](queue_options& o) { o.partitions = {{"live", 1}, {"batch", 2}}; });
    BOOST_TEST(names(c) == "live batch ");
    BOOST_TEST(share_of(c.kitchen, "batch").in_use == 1);
}

BOOST_AUTO_TEST_CASE(the_order_cannot_change_to_or_from_shares) {
    canteen c;
    BOOST_CHECK_EXCEPTION(
        c.kitchen.configure_queue([](queue_options& o) { o.order = queue_order::fifo; }),
        std::invalid_argument,
        says("weir::queue_options: cannot change the order from shares to fifo"));
    seats plain(c.ctx, {.seats = 1});
    BOOST_TEST(plain.shares().empty());
    BOOST_CHECK_EXCEPTION(
        plain.configure_queue([](queue_options& o) { o.order = queue_order::shares; }),
        std::invalid_argument,
        says("weir::queue_options: cannot change the order from fifo to shares"));
    BOOST_TEST((plain.queueing().order == queue_order::fifo));
}

BOOST_AUTO_TEST_CASE(keyed_and_shared_limiters_do_not_support_shares) {
    asio::io_context ctx;
    using keyed =
        weir::basic_keyed<int, weir::policy::seats, asio::any_io_executor, weir::testing::timer>;
    BOOST_CHECK_EXCEPTION(
        keyed(ctx, {.seats = 1}, {}, sharing({})), std::invalid_argument,
        says("weir::queue_options: keyed limiters do not support the order shares"));
    using store = weir::basic_memory_store<weir::testing::timer>;
    using shared = weir::basic_shared_seats<asio::any_io_executor, weir::testing::timer>;
    BOOST_CHECK_EXCEPTION(
        shared(ctx, std::make_shared<store>(ctx), "seats", {.seats = 1}, sharing({})),
        std::invalid_argument,
        says("weir::queue_options: shared limiters do not support the order shares"));
}

BOOST_AUTO_TEST_CASE(a_limiter_by_text_or_by_type_has_shares_too) {
    asio::io_context ctx;
    weir::testing::limiter<weir::any_limiter> door(
        ctx, weir::limiter_config::parse("10 seats & 1000/1s"),
        queue_options::parse("order shares partitions live:70,batch:30"));
    auto ten = door.try_enter(of(batch, 10));
    visit more(door, of(batch));
    visit first(door, of(live));
    settle(ctx);
    ten.settle(9);
    settle(ctx);
    BOOST_TEST(first.granted());
    BOOST_TEST(more.waiting());
    BOOST_TEST(share_of(door, "live").share == 7);

    weir::basic_limiter<weir::policy::seats, asio::any_io_executor,
                        weir::testing::basic_timer<asio::any_io_executor>, weir::order::shares>
        typed(ctx, {.seats = 10}, {.partitions = {{"live", 70}}});
    auto all = typed.try_enter(of(batch, 10));
    visit late(typed, of(batch));
    visit early(typed, of(live));
    settle(ctx);
    all.settle(9);
    settle(ctx);
    BOOST_TEST(early.granted());
    BOOST_TEST(late.waiting());
    typed.configure_queue([](queue_options& o) { o.order = queue_order::shares; });
}

BOOST_AUTO_TEST_CASE(a_chain_borrows_and_goes_before_all_later_requests) {
    canteen c;
    seats printer(c.ctx, {.seats = 1});
    auto held = c.take(batch, 10);
    bool printed = false;
    weir::chain(c.kitchen, printer).async_enter([&](weir::error_code ec, auto const&) {
        printed = !ec;
    });
    c.come(of(live));
    BOOST_TEST(c.after(held[0]) == "0");  // the chain released its permits at once
    BOOST_TEST(printed);
    BOOST_TEST(share_of(c.kitchen, "batch").in_use == 9);
    BOOST_TEST(share_of(c.kitchen, "live").in_use == 1);
}

// Requests arrive, wait and hold permits at random; seats and partitions change. The limiter must grant, queue and
// evict exactly the requests that the definition selects.
BOOST_AUTO_TEST_CASE(grants_follow_the_definition) {
    std::vector<std::string> const names{"live", "batch", "night", "unknown"};
    for_each_seed(1, 400, [&](random_source& random) {
        asio::io_context ctx;
        shares_oracle truth;
        auto const some_partitions = [&] {
            weir::partitions all;
            truth.partitions.clear();
            for (std::size_t left = 100, i = 0; i != 3; ++i) {
                auto const percent =
                    static_cast<int>(random.between(0, static_cast<std::int64_t>(left)));
                left -= static_cast<std::size_t>(percent);
                all.add({names[i], percent});
                truth.partitions[weir::partition_flow(names[i])] = percent;
            }
            return all;
        };
        auto options = sharing(some_partitions());
        options.max_waiting = 8;
        options.full = random.one_in(2) ? when_full::evict_oldest : when_full::reject_newest;
        truth.seats = random.between(1, 12);
        seats kitchen(ctx, {.seats = truth.seats}, options);

        struct guest {
            std::uint64_t key;
            amount n;
            visit what;
            std::unique_ptr<asio::cancellation_signal> stop;
            permit seat;
        };
        std::vector<guest> guests;
        std::vector<int> waiting;
        auto const serve = [&] {
            while (truth.next() >= 0) {
                auto const& first = guests[static_cast<std::size_t>(truth.next())];
                if (truth.free() < first.n)
                    break;
                auto const id = truth.next();
                truth.leave(id);
                truth.take(first.key, first.n);
                std::erase(waiting, id);
            }
        };
        bool sure = true;
        auto const agree = [&] {
            settle(ctx);
            for (std::size_t i = 0; i != guests.size(); ++i) {
                auto& one = guests[i];
                bool const waits = std::ranges::count(waiting, static_cast<int>(i)) != 0;
                BOOST_REQUIRE(one.what.waiting() == waits);
                if (one.what.over() && one.what.granted() && one.what.seat())
                    one.seat = std::move(one.what.seat());
            }
            for (auto const& one : kitchen.shares()) {
                BOOST_REQUIRE(one.share == truth.share(one.partition.flow()));
                BOOST_REQUIRE(one.in_use == truth.held(one.partition.flow()));
            }
            BOOST_REQUIRE(kitchen.stats().in_use == truth.seats - truth.free());
        };
        for (int step = 0; step != 120 && sure; ++step) {
            auto const key = weir::partition_flow(names[random.index_in(names)]);
            auto const n = random.between(1, std::min<amount>(truth.seats, 3));
            switch (random.between(0, 7)) {
                case 0:
                case 1:
                case 2: {  // a request arrives, and waits if necessary
                    auto const id = static_cast<int>(guests.size());
                    guests.push_back(
                        {key, n, {}, std::make_unique<asio::cancellation_signal>(), {}});
                    kitchen.async_enter(
                        of(key, n), asio::bind_cancellation_slot(
                                        guests.back().stop->slot(), guests.back().what.callback()));
                    if (truth.lets_pass(key, n) && truth.free() >= n) {
                        truth.take(key, n);
                        break;
                    }
                    if (waiting.size() == 8U) {
                        if (options.full == when_full::reject_newest)
                            break;
                        auto const gone = truth.may_make_way(key, n);
                        sure = gone.size() < 2U;
                        if (gone.empty() || !sure)
                            break;
                        truth.leave(gone[0]);
                        std::erase(waiting, gone[0]);
                    }
                    truth.join(id, key, n);
                    waiting.push_back(id);
                    break;
                }
                case 3: {  // a request arrives, and does not wait
                    bool const goes = truth.lets_pass(key, n) && truth.free() >= n;
                    auto seat = kitchen.try_enter(of(key, n));
                    BOOST_REQUIRE(bool(seat) == goes);
                    if (goes) {
                        truth.take(key, n);
                        guests.push_back({key, n, {}, nullptr, std::move(seat)});
                    }
                    break;
                }
                case 4:
                case 5: {  // a permit is released, or a part of it
                    for (auto& one : guests) {
                        if (one.seat && random.one_in(2)) {
                            auto const part = random.between(1, one.seat.count());
                            one.seat.split(part).leave();
                            truth.give_back(one.key, part);
                            if (one.seat.count() == 0)
                                one.seat.leave();
                            break;
                        }
                    }
                    break;
                }
                case 6: {  // a patience ends
                    if (waiting.empty())
                        break;
                    auto const id = waiting[random.index_in(waiting)];
                    guests[static_cast<std::size_t>(id)].stop->emit(
                        asio::cancellation_type::terminal);
                    truth.leave(id);
                    std::erase(waiting, id);
                    break;
                }
                case 7:
                    if (random.one_in(2)) {
                        truth.seats = random.between(3, 12);
                        kitchen.configure({.seats = truth.seats});
                    } else {
                        auto const other = some_partitions();
                        kitchen.configure_queue([&](queue_options& o) { o.partitions = other; });
                    }
            }
            if (!sure)
                break;
            serve();
            agree();
        }
    });
}

BOOST_AUTO_TEST_SUITE_END()
