#include <weir/redis/store.hpp>
#include <weir/shared/seats.hpp>

#include "shared/redis/place.hpp"
#include "shared/relay.hpp"
#include "support/quiet.hpp"

namespace {
using place = support::redis_place;
}

#include "shared/seats/tests.hpp"

BOOST_FIXTURE_TEST_SUITE(redis_seats, support::seats_place,
                         *boost::unit_test::precondition(place::if_here))

BOOST_AUTO_TEST_CASE(permit_is_lost_when_everything_was_flushed) {
    weir::shared_seats kitchen(ctx, store, "flushed", short_seats(1));
    visit const before(kitchen);
    run(before);
    auto const fence = before.seat().id();
    support::redis_session(home).say({"FLUSHALL", "SYNC"});
    weir::shared_seats there(ctx, connect(ctx), "flushed", short_seats(1));
    visit const after(there);
    run(after);
    BOOST_TEST(after.granted());
    BOOST_TEST(after.seat().id() > fence);
    bool is_told = false;
    kitchen.async_wait_lost(before.seat(), [&](weir::error_code ec) { is_told = !ec; });
    while (!is_told)
        ctx.run_one();
    BOOST_TEST(before.seat().lost());
    BOOST_TEST(!after.seat().lost());
    BOOST_TEST(held("flushed") == 1);
}

BOOST_AUTO_TEST_CASE(killed_connection_takes_nothing_twice) {
    weir::shared_seats kitchen(ctx, store, "killed", long_seats(2));
    visit const first(kitchen);
    run(first);
    support::redis_session(home).say({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    visit const next(kitchen);
    run(next);
    BOOST_TEST(next.granted());
    BOOST_TEST(!first.seat().lost());
    BOOST_TEST(held("killed") == 2);
}

BOOST_AUTO_TEST_CASE(stopped_server_grants_once_although_the_question_is_repeated) {
    weir::shared_seats_options options = long_seats(2);
    options.timeout = 50ms;
    weir::shared_seats kitchen(ctx, store, "still", options);
    visit const first(kitchen, 1, 30s);
    run(first);
    home.send(SIGSTOP);
    visit const next(kitchen, 1, 30s);
    ctx.restart();
    while (kitchen.shared_stats().unknown + kitchen.shared_stats().failed < 2)
        ctx.run_one();
    home.send(SIGCONT);
    run(next);
    BOOST_TEST(next.granted());
    BOOST_TEST(!first.seat().lost());
    BOOST_TEST(held("still") == 2);
}

BOOST_AUTO_TEST_CASE(restart_of_a_server_without_persistence_loses_held_seats) {
    support::redis_server mortal;
    place there(mortal);
    weir::shared_seats kitchen(there.ctx, there.store, "kitchen", long_seats(2));
    visit const before(kitchen);
    there.run(before);
    mortal.send(SIGKILL);
    mortal.restart();
    visit const after(kitchen, 1, 30s);
    there.run(after);
    BOOST_TEST(after.granted());
    BOOST_TEST(before.seat().lost());
    BOOST_TEST(after.seat().id() != before.seat().id());
    before.leave();
    after.leave();
    there.run();
}

// ---- Messages

namespace {

// Two processes and one seat, each with its own store.
struct pair : support::seats_place {
    support::slow_way way{home.socket(), 0ms};
    std::shared_ptr<weir::redis::store> far =
        at(ctx, weir::redis::options{
                    .url = "unix:" + way.socket(), .connect_timeout = 10s, .silent_for = 300ms});
    std::string name = boost::unit_test::framework::current_test_case().p_name.get();
    weir::shared_seats here{ctx, connect(ctx), name, long_seats(1)};
    weir::shared_seats there{ctx, far, name, long_seats(1)};

    static std::shared_ptr<weir::redis::store> at(asio::io_context& where,
                                                  weir::redis::options const& options) {
        return std::make_shared<weir::redis::store>(where, options);
    }
    void run_for(std::chrono::milliseconds d) {
        ctx.restart();
        ctx.run_for(d);
    }
    // Waits in the line, with the place that a poll would be late for.
    void stand(visit const& v) {
        BOOST_TEST(v.waiting());
        while (look(name).waiting() != 1)
            run_for(5ms);
        run_for(20ms);
        BOOST_TEST(v.waiting());
    }
    // Returns how long `v` waits for its grant.
    std::chrono::milliseconds time_to(visit const& v) {
        auto const begin = std::chrono::steady_clock::now();
        run(v);
        BOOST_TEST(v.granted());
        return std::chrono::duration_cast<std::chrono::milliseconds>(
            std::chrono::steady_clock::now() - begin);
    }
    int subscribers() {
        int n = 0;
        support::redis_session own(home);
        auto const list = own.say({"CLIENT", "LIST", "TYPE", "pubsub"});
        for (auto at = list.find("id="); at != list.npos; at = list.find("id=", at + 1))
            n += at == 0 || list[at - 1] == '\n';
        return n;
    }
    // Both have asked often enough to hear messages.
    void subscribe_both() {
        visit const one(here);
        run(one);
        visit const other(there);
        stand(other);
        one.leave();
        run(other);
        other.leave();
        run_for(100ms);
    }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(message_wakes_the_next_process, pair) {
    subscribe_both();
    visit const one(here);
    run(one);
    visit const other(there);
    stand(other);
    auto const asked = there.shared_stats().questions;
    run_for(300ms);
    BOOST_TEST(there.shared_stats().questions == asked);  // it does not poll
    one.leave();
    BOOST_TEST(time_to(other).count() < (support::quiet_machine() ? 100 : 5000));
    BOOST_TEST(there.shared_stats().questions == asked);  // the message is the grant
}

BOOST_FIXTURE_TEST_CASE(silent_connection_for_messages_is_replaced, pair) {
    subscribe_both();
    visit const one(here);
    run(one);
    visit const other(there);
    stand(other);
    way.silence("SUBSCRIBE");
    one.leave();
    BOOST_TEST(time_to(other).count() < 2000);  // by a question
    run_for(1000ms);                            // twice 300 ms of silence, and a new connection
    visit const again(here);
    stand(again);
    other.leave();
    run(again);
    visit const last(there);
    stand(last);
    again.leave();
    BOOST_TEST(time_to(last).count() < 200);  // by a message
}

BOOST_FIXTURE_TEST_CASE(killed_connection_for_messages_is_replaced, pair) {
    subscribe_both();
    visit const one(here);
    run(one);
    visit const other(there);
    stand(other);
    auto const asked = there.shared_stats().questions;
    support::redis_session(home).say({"CLIENT", "KILL", "TYPE", "pubsub"});
    run_for(200ms);
    BOOST_TEST(there.shared_stats().questions > asked);
    while (subscribers() != 2)
        run_for(10ms);
    run_for(600ms);  // the next question names the channel again
    one.leave();
    BOOST_TEST(time_to(other).count() < 100);
}

BOOST_FIXTURE_TEST_CASE(stall_after_a_grant_by_message_loses_nothing, pair) {
    subscribe_both();
    visit const one(here);
    run(one);
    visit const other(there);
    stand(other);
    one.leave();
    run(other);
    way.stall();
    run_for(400ms);
    BOOST_TEST(!other.seat().lost());
    way.pass_on();
    run_for(1500ms);  // longer than the grant alone
    BOOST_TEST(!other.seat().lost());
    BOOST_TEST(held(name) == 1);
    other.leave();
}

// Both connections of a process end, and it cannot connect: its grant lapses, and the next process gets the seat.
BOOST_FIXTURE_TEST_CASE(process_without_a_network_does_not_block_the_line, pair) {
    subscribe_both();
    visit const one(here);
    run(one);
    visit const other(there);
    stand(other);
    way.refuse();
    one.leave();
    run_for(100ms);
    BOOST_TEST(!other.granted());
    visit const next(here);
    BOOST_TEST(time_to(next).count() < 2500);
    run(other);
    BOOST_TEST(other.rejected(weir::errc::unavailable));
}

BOOST_FIXTURE_TEST_CASE(idle_connection_for_messages_keeps_nothing_running, pair) {
    subscribe_both();
    BOOST_TEST(subscribers() == 2);
    ctx.restart();
    ctx.run();
    visit const one(here);
    run(one);
    one.leave();
    ctx.restart();
    ctx.run();
    BOOST_TEST(held(name) == 0);
}

BOOST_FIXTURE_TEST_CASE(user_without_permission_for_messages_polls, pair) {
    support::redis_session(home).say(
        {"ACL", "SETUSER", "mute", "on", ">secret", "~{weir:*", "-@all", "+eval", "+evalsha",
         "+script|load", "+time", "+get", "+set"});
    auto const url = "unix://mute:secret@" + home.socket();
    weir::shared_seats mute(ctx, at(ctx, weir::redis::options{.url = url}), name, long_seats(1));
    visit const one(mute);
    run(one);
    visit const other(here);
    stand(other);
    one.leave();
    BOOST_TEST(time_to(other).count() < 1000);
    visit const third(mute);
    run_for(50ms);
    BOOST_TEST(third.waiting());
    other.leave();
    BOOST_TEST(time_to(third).count() < 1000);
    BOOST_TEST(subscribers() <= 1);
}

BOOST_AUTO_TEST_SUITE_END()
