#include <weir/chain.hpp>
#include <weir/keyed.hpp>
#include <weir/policy/any.hpp>
#include <weir/policy/seats.hpp>
#include <weir/policy/sliding_log.hpp>
#include <weir/policy/token_bucket.hpp>

#include "support/random.hpp"
#include "support/says.hpp"
#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

using namespace support;
using weir::errc;
using weir::error_code;
using weir::permit;
using weir::when_no_place;

namespace {

template <class Key, class Policy, class Hash = weir::key_hash>
using keyed = weir::basic_keyed<Key, Policy, asio::any_io_executor, weir::testing::timer, Hash>;
using seat_keys = keyed<int, weir::policy::seats>;
using bucket_keys = keyed<std::uint64_t, weir::policy::token_bucket>;

// A request for a key with a callback.
template <class Limiter, class Key, class... Args>
void ask(visit& v, Limiter& limiter, Key const& key, Args... args) {
    limiter.async_enter(key, args..., v.callback());
}

template <class Limiter, class Key>
error_code rejection_of(Limiter& limiter, Key const& key, weir::request n = {}) {
    error_code ec;
    auto const p = limiter.try_enter(key, n, ec);
    return ec;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(keyed_limiter)

BOOST_AUTO_TEST_CASE(gives_each_key_the_decisions_of_a_separate_limiter) {
    asio::io_context ctx;
    bucket_keys per_client{ctx, {.rate = {10, 1s}, .burst = 2}};
    BOOST_TEST(static_cast<bool>(per_client.try_enter(1U)));
    BOOST_TEST(static_cast<bool>(per_client.try_enter(1U)));
    auto const rejected = per_client.try_enter(1U);
    BOOST_TEST(!rejected);
    BOOST_TEST((rejected.retry_after() == 100ms));
    BOOST_TEST(static_cast<bool>(per_client.try_enter(2U, 2)));
    BOOST_TEST(rejection_of(per_client, 3U, 3) == errc::exceeds_capacity);
}

BOOST_AUTO_TEST_CASE(finds_an_integer_of_another_type) {
    asio::io_context ctx;
    keyed<std::uint64_t, weir::policy::seats> tables{ctx, {.seats = 1}};
    auto const seven = tables.try_enter(7);
    BOOST_TEST(!tables.try_enter(std::uint8_t{7}));
    BOOST_TEST(!tables.try_enter(std::int64_t{7}));
    BOOST_TEST(tables.stats(7U).remaining == 0);
    std::vector<std::uint16_t> const keys{7, 8};
    std::vector<permit> seats(2);
    tables.try_enter_many<std::uint16_t>(keys, seats);
    BOOST_TEST(!seats[0]);
    BOOST_TEST(static_cast<bool>(seats[1]));
    auto const greatest = tables.try_enter(-1);
    BOOST_TEST(!tables.try_enter(~std::uint64_t{0}));
    auto const other = tables.try_enter(0xffff'ffffU);
    BOOST_TEST(static_cast<bool>(other));
}

BOOST_AUTO_TEST_CASE(takes_the_policy_of_a_limiter) {
    static_assert(
        std::is_same_v<weir::keyed<int, weir::seats>, weir::keyed<int, weir::policy::seats>>);
    static_assert(std::is_same_v<weir::keyed<int, seats>::policy_type, weir::policy::seats>);
    BOOST_TEST(true);
}

BOOST_AUTO_TEST_CASE(no_key_waits_for_another) {
    asio::io_context ctx;
    seat_keys tables{ctx, {.seats = 1}};
    auto seat = tables.try_enter(1);
    visit first;
    visit second;
    visit elsewhere;
    ask(first, tables, 1);
    ask(second, tables, 1, 5s);
    ask(elsewhere, tables, 2, 5s);
    settle(ctx);
    BOOST_TEST(elsewhere.granted());
    BOOST_TEST(first.waiting());
    BOOST_TEST(tables.stats(1).waiting == 2U);
    BOOST_TEST(tables.stats().total.waiting == 2U);
    run_for(ctx, 1s);
    seat.leave();
    settle(ctx);
    BOOST_TEST(first.granted());
    BOOST_TEST(second.waiting());
    auto const all = tables.snapshot();
    BOOST_TEST(all.stats.total.granted == 3U);
    BOOST_TEST(all.waits.count() == 1U);
    BOOST_TEST((all.waits.quantile(1) >= 1s && all.waits.quantile(1) <= 1125ms));
    run_for(ctx, 6s);
    BOOST_TEST(second.rejected(errc::timed_out));
    BOOST_TEST(tables.stats().total.timed_out == 1U);
}

BOOST_AUTO_TEST_CASE(is_awaited_like_a_plain_limiter) {
    asio::io_context ctx;
    keyed<std::string, weir::policy::token_bucket> calls{ctx, {.rate = {1, 1s}, .burst = 1}};
    keyed<std::uint64_t, weir::policy::sliding_log> numbers{ctx, {.limit = 1, .window = 1s}};
    std::vector<std::string> said;
    std::string const bob = "bob";
    auto const caller = [&]() -> asio::awaitable<void> {
        auto const first = co_await calls.enter("alice");
        auto const second = co_await calls.enter(std::string("alice"), 2s);
        said.push_back(second.waited() == 1s ? "waited" : "did not wait");
        auto const third = co_await calls.enter(bob);
        auto const fourth = co_await calls.async_enter(std::string_view("carol"), 1s);
        said.push_back(third.waited() + fourth.waited() == 0s ? "did not wait" : "waited");
        auto const says_hello = [&] { said.emplace_back("hello"); };
        co_await calls.run("dave", says_hello);
        try {
            auto const none = co_await calls.enter(bob, 500ms);
        } catch (weir::rejection const& why) {
            said.push_back(why.code() == errc::deadline_unreachable && why.retry_after() == 1s
                               ? "rejected"
                               : "oddly rejected");
        }
        std::uint32_t const number = 7;
        auto const fifth = co_await numbers.enter(number);
        auto const sixth = co_await numbers.enter(8U, 1s);
        auto const seventh = co_await numbers.async_enter(number, 1s);
        said.push_back(sixth.waited() == 0s && seventh.waited() == 1s ? "counted" : "mistaken");
    };
    co_spawn(ctx, caller(), rethrow);
    run_for(ctx, 10s);
    BOOST_TEST((said == std::vector<std::string>{
                            "waited", "did not wait", "hello", "rejected", "counted"}));
}

// Found elsewhere: cristipufu#61, #196.
BOOST_AUTO_TEST_CASE(forgets_a_key_when_this_makes_no_difference) {
    asio::io_context ctx;
    bucket_keys per_client{ctx, {.rate = {1, 1s}, .burst = 1}, {.shards = 1}};
    for (std::uint64_t key = 0; key != 10'000; ++key)
        per_client.try_enter(key).leave();
    BOOST_TEST(per_client.stats().keys == 10'000U);
    auto const bytes = per_client.stats().bytes;

    // All of them are back in their initial state. New keys take their room.
    run_for(ctx, 1s);
    for (std::uint64_t key = 10'000; key != 20'000; ++key) {
        BOOST_TEST_REQUIRE(static_cast<bool>(per_client.try_enter(key)));
        if (key % 1'000 == 0)
            BOOST_TEST(static_cast<bool>(per_client.try_enter(key - 10'000)));
    }
    BOOST_TEST(per_client.stats().keys <= 12'000U);
    BOOST_TEST(per_client.stats().bytes <= 2 * bytes);

    // When few remain, memory is released.
    for (int minute = 0; minute != 200; ++minute) {
        run_for(ctx, 1s);
        for (std::uint64_t key = 0; key != 100; ++key)
            per_client.try_enter(key + 1'000'000 + static_cast<std::uint64_t>(minute) * 100)
                .leave();
    }
    BOOST_TEST(per_client.stats().keys < 400U);
    BOOST_TEST(per_client.stats().bytes < bytes / 4);
}

BOOST_AUTO_TEST_CASE(does_not_forget_a_key_with_permits_in_use) {
    asio::io_context ctx;
    seat_keys tables{ctx, {.seats = 1}, {.shards = 1}};
    auto const seat = tables.try_enter(-1);
    for (int key = 0; key != 5'000; ++key)
        tables.try_enter(key).leave();
    BOOST_TEST(!tables.try_enter(-1));
    BOOST_TEST(tables.stats().keys < 200U);
}

BOOST_AUTO_TEST_CASE(rejects_new_keys_when_it_is_full) {
    asio::io_context ctx;
    bucket_keys per_client{ctx, {.rate = {1, 1s}, .burst = 3}, {.max_keys = 100}};
    for (std::uint64_t key = 0; key != 100; ++key)
        BOOST_TEST(static_cast<bool>(per_client.try_enter(key)));
    BOOST_TEST(rejection_of(per_client, 100U) == errc::too_many_keys);
    BOOST_TEST(static_cast<bool>(per_client.try_enter(7U)));  // existing keys continue
    visit v;
    ask(v, per_client, 200U, 10s);
    settle(ctx);
    BOOST_TEST(v.rejected(errc::too_many_keys));
    BOOST_TEST(!per_client.charge(300U, 1));
    BOOST_CHECK_EXCEPTION(per_client.configure(400U, {.rate = {1, 1s}}), std::length_error,
                          says("weir::keyed: the limiter has reached its maximum number of keys"));
    auto const stats = per_client.stats();
    BOOST_TEST(stats.keys == 100U);
    BOOST_TEST(stats.total.too_many_keys == 2U);

    // There is room as soon as a key can be forgotten.
    run_for(ctx, 10s);
    BOOST_TEST(static_cast<bool>(per_client.try_enter(100U)));
    BOOST_TEST(per_client.stats().keys <= 100U);
}

BOOST_AUTO_TEST_CASE(lets_new_keys_share_one_state_when_it_is_full) {
    asio::io_context ctx;
    seat_keys tables{ctx, {.seats = 2}, {.max_keys = 3, .no_place = when_no_place::share}};
    std::vector<permit> seats;
    for (int key : {1, 2, 3})
        seats.push_back(tables.try_enter(key));
    auto ten = tables.try_enter(10);
    auto eleven = tables.try_enter(11);
    BOOST_TEST(static_cast<bool>(ten));
    BOOST_TEST(static_cast<bool>(eleven));
    BOOST_TEST(rejection_of(tables, 12) == errc::no_permit);  // both shared seats are in use
    BOOST_TEST(static_cast<bool>(tables.try_enter(1)));       // other keys are unaffected
    visit twelve;
    visit thirteen;
    ask(twelve, tables, 12, 5s);
    ask(thirteen, tables, 13, 5s);
    settle(ctx);
    BOOST_TEST(twelve.waiting());
    BOOST_TEST(tables.stats().total.waiting == 2U);
    eleven.leave();
    settle(ctx);
    BOOST_TEST(twelve.granted());
    BOOST_TEST(thirteen.waiting());
    tables.configure({.seats = 3});
    settle(ctx);
    BOOST_TEST(thirteen.granted());
    tables.close();
    BOOST_TEST(rejection_of(tables, 14) == errc::closed);
}

BOOST_AUTO_TEST_CASE(lets_keys_share_only_while_no_key_can_be_forgotten) {
    asio::io_context ctx;
    bucket_keys per_client{
        ctx, {.rate = {1, 1s}, .burst = 1}, {.max_keys = 100, .no_place = when_no_place::share}};
    auto const enter = [&](std::uint64_t key) {
        return static_cast<bool>(per_client.try_enter(key));
    };
    for (std::uint64_t key = 0; key != 100; ++key)
        BOOST_TEST(enter(key));
    BOOST_TEST(enter(100));
    BOOST_TEST(!enter(101));  // it shares the state of key 100
    BOOST_TEST(!enter(7));

    // All are back in their initial state: each new key replaces one.
    run_for(ctx, 1min);
    for (std::uint64_t key = 200; key != 250; ++key) {
        BOOST_TEST(enter(key));
        BOOST_TEST(!enter(key));
    }
    BOOST_TEST(enter(7));
    visit waiting;
    ask(waiting, per_client, 300U, 10s);
    settle(ctx);
    BOOST_TEST(waiting.granted());
    BOOST_TEST(static_cast<bool>(per_client.charge(400U, 1)));
    BOOST_TEST(!enter(400));
    BOOST_TEST(enter(500));
    BOOST_TEST(per_client.stats().keys <= 100U);
}

BOOST_AUTO_TEST_CASE(forgets_keys_even_with_a_small_maximum) {
    asio::io_context ctx;
    for (std::uint64_t const most : {1U, 5U, 50U}) {
        bucket_keys per_client{
            ctx, {.rate = {1, 1s}, .burst = 1}, {.max_keys = most, .shards = 1024}};
        for (std::uint64_t key = 0; key != 1'000; ++key) {
            BOOST_TEST_REQUIRE(static_cast<bool>(per_client.try_enter(key)));
            run_for(ctx, 1s);
        }
        BOOST_TEST(per_client.stats().keys <= most);
    }
}

BOOST_AUTO_TEST_CASE(a_batch_of_keys_shares_like_single_requests) {
    asio::io_context ctx;
    seat_keys tables{ctx, {.seats = 2}, {.max_keys = 3, .no_place = when_no_place::share}};
    std::vector<int> const keys{1, 2, 3, 10, 1, 11, 12};
    std::vector<permit> seats(keys.size());
    tables.try_enter_many<int>(keys, seats);
    std::vector<bool> granted;
    for (auto const& seat : seats)
        granted.push_back(static_cast<bool>(seat));
    BOOST_TEST(granted == (std::vector<bool>{true, true, true, true, true, true, false}),
               boost::test_tools::per_element());
    BOOST_TEST(tables.stats().total.too_many_keys == 0U);
    BOOST_TEST(tables.stats().total.no_permit == 1U);
}

// With any number of new keys, memory stays the same, and so do the decisions about other keys.
// Found elsewhere: boinkor-net/governor#171, #172.
BOOST_AUTO_TEST_CASE(withstands_a_flood_of_keys) {
    asio::io_context ctx;
    bucket_keys per_client{ctx, {.rate = {1, 1h}, .burst = 2}, {.max_keys = 1'000}};
    BOOST_TEST(static_cast<bool>(per_client.try_enter(0U)));
    random_source random(1);
    std::uint64_t bytes = 0;
    for (int i = 0; i != 300'000; ++i) {
        static_cast<void>(per_client.try_enter(random.bits()));
        if (i == 10'000)
            bytes = per_client.stats().bytes;
    }
    BOOST_TEST(per_client.stats().bytes == bytes);
    BOOST_TEST(per_client.stats().keys == 1'000U);
    BOOST_TEST(static_cast<bool>(per_client.try_enter(0U)));
    BOOST_TEST(rejection_of(per_client, 0U) == errc::no_permit);
}

// Text that counts its constructions.
class counted_text {
public:
    static inline int made = 0;

    explicit counted_text(std::string_view text) : text_(text) { ++made; }
    explicit operator std::string_view() const noexcept { return text_; }
    bool operator==(counted_text const&) const = default;
    friend bool operator==(counted_text const& a, std::string_view b) noexcept {
        return a.text_ == b;
    }

private:
    std::string text_;
};
struct hash_of_text {
    template <class Text>
    std::uint64_t operator()(weir::hash_seed const& seed, Text const& text) const noexcept {
        return weir::key_hash()(seed, std::string_view(text));
    }
};
BOOST_AUTO_TEST_CASE(looks_up_text_without_constructing_a_key) {
    counted_text::made = 0;
    asio::io_context ctx;
    keyed<counted_text, weir::policy::sliding_log, hash_of_text> calls{
        ctx, {.limit = 3, .window = 1min}};
    std::string_view const name = "client";
    BOOST_TEST(static_cast<bool>(calls.try_enter(name)));
    BOOST_TEST(counted_text::made == 1);
    BOOST_TEST(static_cast<bool>(calls.try_enter(name)));
    BOOST_TEST(static_cast<bool>(calls.try_enter("client")));
    BOOST_TEST(!calls.try_enter(name));
    BOOST_TEST(calls.stats(name).remaining == 0);
    auto const caller = [&]() -> asio::awaitable<void> {
        auto const late = co_await calls.enter(name);
    };
    co_spawn(ctx, caller(), rethrow);
    run_for(ctx, 1min);
    BOOST_TEST(counted_text::made == 1);

    // Text without a special type.
    keyed<std::string, weir::policy::sliding_log> plain{ctx, {.limit = 2, .window = 1min}};
    BOOST_TEST(static_cast<bool>(plain.try_enter(name)));
    BOOST_TEST(static_cast<bool>(plain.try_enter(std::string("client"))));
    BOOST_TEST(!plain.try_enter("client"));
}

// Keys with equal hashes in an unseeded table.
BOOST_AUTO_TEST_CASE(is_not_slowed_down_by_keys_that_collide_in_unseeded_tables) {
    auto const identity = [](std::uint64_t key) { return std::hash<std::uint64_t>()(key); };
    std::vector<std::uint64_t> chosen;
    for (std::uint64_t i = 0; i != 2'000; ++i)
        chosen.push_back(i << 20);  // same bucket in each table of at most a million buckets
    for (auto const key : chosen)
        BOOST_TEST_REQUIRE(identity(key) % (1U << 20) == 0U);

    asio::io_context ctx;
    bucket_keys per_client{ctx, {.rate = {1, 1h}, .burst = 1}, {.shards = 1}};
    for (auto const key : chosen)
        BOOST_TEST_REQUIRE(static_cast<bool>(per_client.try_enter(key)));
    BOOST_TEST(per_client.stats().keys == chosen.size());
    BOOST_TEST(per_client.stats().bytes < 60U * chosen.size());  // spread over the pages
}

// A user-defined hash for a user-defined type.
struct point {
    int x = 0;
    int y = 0;
    std::string name;
    bool operator==(point const&) const = default;
};
struct hash_of_point {
    std::uint64_t operator()(weir::hash_seed const& seed, point const& p) const noexcept {
        weir::key_hash const hash;
        return hash(seed, p.x) * 31 + hash(seed, p.y) + hash(seed, p.name);
    }
};
BOOST_AUTO_TEST_CASE(takes_keys_of_any_type) {
    asio::io_context ctx;
    keyed<point, weir::policy::seats, hash_of_point> places{ctx, {.seats = 1}};
    point const here{1, 2, "here"};
    auto seat = places.try_enter(here);
    BOOST_TEST(static_cast<bool>(seat));
    BOOST_TEST(!places.try_enter(point{1, 2, "here"}));
    BOOST_TEST(static_cast<bool>(places.try_enter(point{1, 2, "there"})));
    visit v;
    ask(v, places, here, 1s);
    auto half = seat.split(0);
    seat.leave();
    settle(ctx);
    BOOST_TEST(v.granted());
}

BOOST_AUTO_TEST_CASE(has_options_for_all_keys_and_for_one) {
    asio::io_context ctx;
    seat_keys tables{ctx, {.seats = 1}};
    tables.configure(7, {.seats = 3});  // the key is new
    tables.configure({.seats = 2});
    BOOST_TEST(tables.options(7).seats == 3);
    BOOST_TEST(tables.options(8).seats == 2);
    BOOST_TEST(tables.stats(7).capacity == 3);
    BOOST_TEST(tables.stats(8).remaining == 2);
    auto const all_of_it = tables.try_enter(7, 3);
    BOOST_TEST(static_cast<bool>(all_of_it));
    tables.reset(7);
    BOOST_TEST(tables.stats(7).debt == 1);
    tables.configure([](weir::seats_options& o) { o.seats += 2; });
    BOOST_TEST(tables.stats(7).remaining == 1);
    BOOST_CHECK_THROW(tables.configure({.seats = 0}), std::invalid_argument);
    BOOST_TEST(tables.options().seats == 4);
}

BOOST_AUTO_TEST_CASE(checks_waiting_requests_again_when_options_change) {
    asio::io_context ctx;
    seat_keys tables{ctx, {.seats = 1}};
    auto const one = tables.try_enter(1);
    auto const two = tables.try_enter(2);
    visit first;
    visit second;
    ask(first, tables, 1);
    ask(second, tables, 2);
    tables.configure(1, {.seats = 2});
    settle(ctx);
    BOOST_TEST(first.granted());
    BOOST_TEST(second.waiting());
    tables.configure({.seats = 2});
    settle(ctx);
    BOOST_TEST(second.granted());
}

BOOST_AUTO_TEST_CASE(has_options_for_the_queues_of_all_keys) {
    asio::io_context ctx;
    seat_keys tables{ctx, {.seats = 1}, {.shards = 2}, {.max_waiting = 1}};
    BOOST_TEST(tables.queueing().max_waiting == 1);
    std::vector<permit> seats;
    for (int key = 0; key != 8; ++key)
        seats.push_back(tables.try_enter(key));
    std::vector<visit> early(8);
    for (int key = 0; key != 8; ++key)
        ask(early[static_cast<std::size_t>(key)], tables, key);

    tables.configure_queue([](weir::queue_options& queue) {
        queue.max_waiting = 2;
        queue.patience = 1s;
    });
    BOOST_TEST(tables.queueing().max_waiting == 2);
    std::vector<visit> late(16);
    for (int i = 0; i != 16; ++i)
        ask(late[static_cast<std::size_t>(i)], tables, i % 8);
    settle(ctx);
    run_for(ctx, 2s);
    for (std::size_t i = 0; i != 8; ++i) {
        BOOST_TEST(early[i].waiting());  // with the patience from its arrival
        BOOST_TEST(late[i].rejected(errc::timed_out));
        BOOST_TEST(late[i + 8].rejected(errc::queue_full));
    }
    BOOST_CHECK_THROW(
        tables.configure_queue([](weir::queue_options& queue) { queue.max_waiting = -1; }),
        std::invalid_argument);
    BOOST_TEST(tables.queueing().max_waiting == 2);

    // If another change comes first, the function is called again.
    int calls = 0;
    tables.configure_queue([&](weir::queue_options& queue) {
        if (++calls == 1)
            tables.configure_queue([](weir::queue_options& other) { other.max_waiting = 7; });
        ++queue.max_waiting;
    });
    BOOST_TEST(calls == 2);
    BOOST_TEST(tables.queueing().max_waiting == 8);
    BOOST_TEST((tables.queueing().patience.length_or(weir::forever) == 1s));
}

BOOST_AUTO_TEST_CASE(cancels_and_closes_and_drains) {
    asio::io_context ctx;
    seat_keys tables{ctx, {.seats = 1}};
    std::vector<permit> seats;
    std::vector<visit> waiting(20);
    for (int key = 0; key != 20; ++key) {
        seats.push_back(tables.try_enter(key));
        ask(waiting[static_cast<std::size_t>(key)], tables, key);
    }
    visit slotted;
    asio::cancellation_signal signal;
    tables.async_enter(3, asio::bind_cancellation_slot(signal.slot(), slotted.callback()));
    std::optional<error_code> drained;
    tables.async_drain([&](error_code ec) { drained = ec; });
    settle(ctx);
    signal.emit(asio::cancellation_type::total);
    tables.cancel(5);
    settle(ctx);
    BOOST_TEST(slotted.rejected(asio::error::operation_aborted));
    BOOST_TEST(waiting[5].rejected(asio::error::operation_aborted));
    BOOST_TEST(waiting[6].waiting());
    tables.shutdown();
    BOOST_TEST(rejection_of(tables, 99) == errc::closed);
    seats[6].leave();
    settle(ctx);
    BOOST_TEST(waiting[6].granted());
    tables.close();
    settle(ctx);
    for (std::size_t i = 7; i != 20; ++i)
        BOOST_TEST(waiting[i].rejected(errc::closed));
    BOOST_TEST(!drained);
    seats.clear();
    waiting.clear();
    settle(ctx);
    BOOST_TEST((drained && !*drained));

    // A drain can be cancelled too, and ends with the limiter.
    std::optional<seat_keys> others(std::in_place, ctx, weir::seats_options{.seats = 1});
    auto const seat = others->try_enter(1);
    std::optional<error_code> cancelled;
    others->async_drain(
        asio::bind_cancellation_slot(signal.slot(), [&](error_code ec) { cancelled = ec; }));
    settle(ctx);
    signal.emit(asio::cancellation_type::total);
    settle(ctx);
    BOOST_TEST((cancelled == error_code(asio::error::operation_aborted)));
    std::optional<error_code> closed;
    others->async_drain([&](error_code ec) { closed = ec; });
    settle(ctx);
    others.reset();
    settle(ctx);
    BOOST_TEST((closed == make_error_code(errc::closed)));
}

// It can be cancelled from its start, even if the first parts that it checks have no permits in use.
BOOST_AUTO_TEST_CASE(drain_can_be_cancelled_at_any_time) {
    asio::io_context ctx;
    for (bool const by_signal : {true, false}) {
        for (int steps = 0; steps != 40; ++steps) {
            seat_keys tables{ctx, {.seats = 1}};
            auto const seat = tables.try_enter(1);
            asio::cancellation_signal signal;
            auto const drained = std::make_shared<std::optional<error_code>>();
            tables.async_drain(asio::bind_cancellation_slot(
                signal.slot(), [drained](error_code ec) { *drained = ec; }));
            ctx.restart();
            for (int i = 0; i != steps; ++i)
                ctx.poll_one();
            if (by_signal)
                signal.emit(asio::cancellation_type::total);
            else
                tables.cancel();
            settle(ctx);
            BOOST_TEST((*drained == error_code(asio::error::operation_aborted)));
        }
    }
}

BOOST_AUTO_TEST_CASE(an_event_for_all_keys_does_not_change_the_state_of_their_orders) {
    asio::io_context ctx;
    seat_keys tables{
        ctx,
        {.seats = 1},
        {},
        {.order = weir::queue_order::codel, .target = 5ms, .interval = 100ms, .tolerance = 0s}};
    auto seat = tables.try_enter(1);
    visit first;
    visit second;
    ask(first, tables, 1);
    ask(second, tables, 1);
    run_for(ctx, 5ms);
    seat.leave();
    settle(ctx);
    BOOST_TEST(first.granted());  // in time
    tables.shutdown();
    run_for(ctx, 100ms);
    BOOST_TEST(second.waiting());
    run_for(ctx, 95ms);
    BOOST_TEST(second.rejected(errc::shed));
}

// The event reaches most keys by such a call, which does not serve them.
BOOST_AUTO_TEST_CASE(a_rejected_charge_of_a_closed_key_loses_no_waiting_request) {
    constexpr int keys = 60;
    asio::io_context ctx;
    seat_keys tables{ctx, {.seats = 1}, {.shards = 1}};
    std::vector<permit> seats;
    int closed = 0;
    for (int key = 0; key != keys; ++key) {
        seats.push_back(tables.try_enter(key));
        tables.async_enter(key, [&](error_code ec, permit) { closed += ec == errc::closed; });
    }
    ctx.poll();
    tables.close();
    for (int key = 0; key != keys; ++key)
        BOOST_TEST(!tables.charge(key, 1));
    ctx.restart();
    ctx.poll();
    BOOST_TEST(closed == keys);
}

// A bucket that makes up for late grants wakes up late. No request may notice that.
struct late_wake_up {
    late_wake_up() {
        permits.push_back(tables.try_enter(1, 10));
        tables.async_enter(1, first.callback());
        run_for(ctx, 1ms);  // now the next wake-up is a tolerance later
        BOOST_TEST(first.granted());
    }

    asio::io_context ctx;
    bucket_keys tables{ctx, {.rate = {1000, 1s}, .burst = 10}, {.shards = 1}, {.tolerance = 5ms}};
    std::vector<permit> permits;
    visit first, second;
};

BOOST_FIXTURE_TEST_CASE(a_late_wake_up_delays_no_newcomer, late_wake_up) {
    tables.async_enter(1, second.callback());
    settle(ctx);
    clock::advance_to(clock::now() + 2ms);
    error_code ec;
    BOOST_TEST(static_cast<bool>(tables.try_enter(1, 1, ec)));
    BOOST_TEST(ec == error_code());
    settle(ctx);
    BOOST_TEST(second.granted());
}

BOOST_FIXTURE_TEST_CASE(a_late_wake_up_delays_no_newcomer_that_may_wait, late_wake_up) {
    tables.async_enter(1, second.callback());
    settle(ctx);
    clock::advance_to(clock::now() + 2ms);
    visit third(tables, 1);
    settle(ctx);
    BOOST_TEST(second.granted());
    BOOST_TEST(third.granted());
}

BOOST_FIXTURE_TEST_CASE(a_late_wake_up_delays_no_chain, late_wake_up) {
    seats gate{ctx, {.seats = 1}};
    tables.async_enter(1, second.callback());
    settle(ctx);
    clock::advance_to(clock::now() + 2ms);
    BOOST_TEST(static_cast<bool>(weir::chain(tables.with(1), gate).try_enter()));
    settle(ctx);
    BOOST_TEST(second.granted());
}

BOOST_FIXTURE_TEST_CASE(a_late_wake_up_delays_no_reservation, late_wake_up) {
    auto reserved = tables.reserve(1);
    settle(ctx);
    clock::advance_to(*reserved.at());
    BOOST_TEST(static_cast<bool>(reserved.try_enter()));
}

BOOST_AUTO_TEST_CASE(cancels_only_the_requests_that_wait_at_that_time) {
    asio::io_context ctx;
    seat_keys tables{ctx, {.seats = 1}, {.shards = 1}};
    std::vector<permit> seats;
    std::vector<visit> before(100);
    std::vector<visit> after(100);
    for (int key = 0; key != 100; ++key) {
        seats.push_back(tables.try_enter(key));
        ask(before[static_cast<std::size_t>(key)], tables, key);
    }
    tables.cancel();
    for (int key = 0; key != 100; ++key)
        ask(after[static_cast<std::size_t>(key)], tables, key);
    settle(ctx);
    for (std::size_t i = 0; i != 100; ++i) {
        BOOST_TEST(before[i].rejected(asio::error::operation_aborted));
        BOOST_TEST(after[i].waiting());
    }
}

BOOST_AUTO_TEST_CASE(tries_many_keys_in_one_call) {
    asio::io_context ctx;
    bucket_keys per_client{ctx, {.rate = {1, 1h}, .burst = 2}};
    std::vector<std::uint64_t> keys;
    random_source random(1);
    for (int i = 0; i != 1'000; ++i)
        keys.push_back(static_cast<std::uint64_t>(random.between(0, 300)));
    std::vector<permit> outcomes(keys.size());
    per_client.try_enter_many<std::uint64_t>(keys, outcomes);
    std::unordered_map<std::uint64_t, int> granted;
    for (std::size_t i = 0; i != keys.size(); ++i) {
        bool const fits = granted[keys[i]] < 2;
        BOOST_TEST_REQUIRE(static_cast<bool>(outcomes[i]) == fits);
        granted[keys[i]] += fits;
    }
    std::vector<permit> two(2);
    per_client.try_enter_many<std::uint64_t>(keys, two);  // only two results
    per_client.try_enter_many<std::uint64_t>({}, outcomes);

    // The call first releases the permits that the results hold.
    keyed<std::uint64_t, weir::policy::seats> tables{ctx, {.seats = 1}};
    std::vector<std::uint64_t> const three{1, 2, 3};
    std::vector<permit> seats(3);
    for (int round = 0; round != 3; ++round) {
        tables.try_enter_many<std::uint64_t>(three, seats);
        for (auto const& seat : seats)
            BOOST_TEST(static_cast<bool>(seat));
    }
}

BOOST_AUTO_TEST_CASE(permits_outlive_the_limiter_and_its_context) {
    auto ctx = std::make_unique<asio::io_context>();
    std::optional<keyed<std::string, weir::policy::seats>> tables(
        std::in_place, *ctx, weir::seats_options{.seats = 2});
    auto first = tables->try_enter("a name that is too long for the inside of a string", 2);
    auto second = first.split(1);
    auto nothing = tables->try_enter("nothing", 0);
    bool destroyed = false;
    auto const at_end = std::shared_ptr<void>(nullptr, [&](void*) { destroyed = true; });
    tables->async_enter("a name that is too long for the inside of a string",
                        [at_end](error_code, permit) { BOOST_ERROR("called"); });
    const_cast<std::shared_ptr<void>&>(at_end).reset();
    ctx.reset();
    BOOST_TEST(destroyed);
    first.leave();
    BOOST_TEST(!tables->try_enter("x"));
    tables.reset();
    nothing.settle(0);
    second.refund();
}

BOOST_AUTO_TEST_CASE(invalid_options_are_named) {
    asio::io_context ctx;
    auto const make = [&](weir::keyed_options const& keys) {
        seat_keys const none{ctx, {.seats = 1}, keys};
    };
    BOOST_CHECK_EXCEPTION(make({.max_keys = 0}), std::invalid_argument,
                          says("weir::keyed: max_keys is 0, but must be from 1 to 4294967296"));
    BOOST_CHECK_THROW(make({.max_keys = ~std::uint64_t{0}}), std::invalid_argument);
    BOOST_CHECK_THROW(make({.shards = 0}), std::invalid_argument);
    BOOST_CHECK_THROW(make({.shards = 1'025}), std::invalid_argument);
    BOOST_CHECK_THROW((seat_keys{ctx, {.seats = 1, .max_hold = 1s}}), std::invalid_argument);
    BOOST_CHECK_THROW((keyed<int, weir::policy::any>{
                          ctx, weir::limiter_config::parse("3 seats max_hold 30s & 10/1s")}),
                      std::invalid_argument);
}

BOOST_AUTO_TEST_SUITE_END()
