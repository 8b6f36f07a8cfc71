#include "shared/mysql/place.hpp"
#include "shared/mysql/server.hpp"
#include "shared/mysql/sql.hpp"
#include "weir/mysql/statements.hpp"

#include <boost/test/tree/decorator.hpp>
#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <string>
#include <thread>
#include <vector>

// "At most one row in three seconds, whatever the number of writers": five earlier designs, each with interleavings of
// sessions that show its faults, and the current design. Times are seconds on the clock of the writer; the table has a
// row of 1000 s, or none.

namespace {

namespace ut = boost::unit_test;
namespace text = weir::mysql::detail;
using support::server;
using support::sql_error;
using support::sql_session;
using support::wait_for_lock_waits;
using parameter = text::statement_text::parameter;

constexpr int duplicate = 1062;
constexpr int deadlock = 1213;

struct fixture {
    sql_session a{server().socket()};
    sql_session b{server().socket()};
    sql_session c{server().socket()};
    sql_session watcher{server().socket()};

    void make(std::string const& columns) {
        watcher.query("drop table if exists ticks");
        watcher.query("create table ticks(id bigint auto_increment primary key, " + columns +
                      ") engine=innodb");
    }
    void isolate(std::string const& level) {
        for (auto* const s : {&a, &b, &c})
            s->query("set session transaction isolation level " + level);
    }
    std::int64_t rows() { return watcher.number("select count(*) from ticks"); }
    double gap() {
        return std::stod(
            watcher.value_of("select max(time) - min(time) from ticks where time > 1000"));
    }

    // Returns the error with which `said` fails; 0 if it succeeds.
    template <class F>
    static int code_of(F said) {
        try {
            said();
        } catch (sql_error const& e) {
            return e.code();
        }
        return 0;
    }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(mysql_versions, fixture, *ut::precondition(support::if_mariadb_is_here))

// ---- 1: read the newest row, and insert if it is old enough

BOOST_AUTO_TEST_CASE(version_1_inserts_two_rows_that_read_at_the_same_time) {
    make("time decimal(12,3)");
    a.query("insert into ticks(time) values(1000)");
    for (auto* const s : {&a, &b})
        BOOST_TEST(s->value_of("select max(time) from ticks") == "1000.000");
    a.query("insert into ticks(time) values(1004.0)");
    b.query("insert into ticks(time) values(1004.1)");
    BOOST_TEST(rows() == 3);
    BOOST_TEST(gap() < 0.2);
}

// ---- 2: times rounded to three seconds are unique

BOOST_AUTO_TEST_CASE(version_2_inserts_two_rows_on_both_sides_of_a_boundary) {
    make("slot bigint unique, time decimal(12,3)");
    auto const insert = [](double time) {
        return fmt::format("insert into ticks(slot, time) values(floor({0} / 3), {0})", time);
    };
    a.query(insert(1001.9));
    BOOST_TEST(code_of([&] { b.query(insert(1001.95)); }) == duplicate);
    b.query(insert(1002.1));
    BOOST_TEST(rows() == 2);
    BOOST_TEST(gap() < 0.3);
}

// ---- 3: the next time is the last one plus three seconds, and unique

BOOST_AUTO_TEST_CASE(version_3_makes_up_for_all_missed_rows) {
    make("next decimal(12,3) unique, time decimal(12,3)");
    a.query("insert into ticks(next, time) values(1000, 1000)");
    for (double const time : {1100.0, 1100.1, 1100.2, 1100.3})  // after a pause
        a.query(fmt::format("insert into ticks(next, time) select max(next) + 3, {0} from ticks "
                            "having max(next) + 3 <= {0}",
                            time));
    BOOST_TEST(rows() == 5);
    BOOST_TEST(gap() < 0.4);
}

// ---- 4: the number of the row is read with the newest time, and the next number is unique

namespace {

struct version_4 : fixture {
    version_4() {
        make("dup_id bigint unique, time decimal(12,3)");
        a.query("insert into ticks(dup_id, time) values(1, 1000)");
    }
    static std::string insert(int number, double time) {
        return fmt::format("insert into ticks(dup_id, time) values({}, {})", number, time);
    }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(version_4_is_correct_if_two_read_at_the_same_time, version_4) {
    a.query("start transaction");
    a.query(insert(2, 1004.0));
    auto blocked = b.start(insert(2, 1004.1));
    wait_for_lock_waits(watcher, 1);
    a.query("commit");
    BOOST_TEST(code_of([&] { blocked.get(); }) == duplicate);
    BOOST_TEST(rows() == 2);
}

BOOST_FIXTURE_TEST_CASE(version_4_inserts_early_if_a_clock_is_ahead, version_4) {
    double const first = 1003.2;
    a.query(insert(2, first));
    double const second = 1004.4;  // the correct time; its clock is 2 s ahead
    double const seen = second + 2;
    auto const newest =
        b.query("select dup_id, time from ticks order by dup_id desc limit 1").at(0);
    BOOST_TEST_REQUIRE(seen - std::stod(newest[1]) >= 3);
    b.query(insert(std::stoi(newest[0]) + 1, seen));
    BOOST_TEST(second - first < 3);
    BOOST_TEST(rows() == 3);
}

BOOST_FIXTURE_TEST_CASE(version_4_deadlocks_if_the_first_of_three_gives_up, version_4) {
    a.query("start transaction");
    a.query(insert(2, 1004.0));
    auto second = b.start(insert(2, 1004.1));
    wait_for_lock_waits(watcher, 1);
    auto third = c.start(insert(2, 1004.2));
    wait_for_lock_waits(watcher, 2);
    a.query("rollback");
    auto const errors = code_of([&] { second.get(); }) + code_of([&] { third.get(); });
    BOOST_TEST(errors == deadlock);
    BOOST_TEST(rows() == 2);
}

BOOST_FIXTURE_TEST_CASE(version_4_inserts_all_rows_into_an_empty_table, version_4) {
    a.query("delete from ticks");
    for (auto* const s : {&a, &b})
        BOOST_TEST(s->value_of("select max(dup_id) + 1 from ticks") == "NULL");
    for (auto* const s : {&a, &b})
        s->query("insert into ticks(dup_id, time) values(null, 1004)");
    BOOST_TEST(rows() == 2);
}

// ---- 5: the newest row is locked when it is read

namespace {

struct version_5 : fixture {
    static constexpr auto look = "select max(time) from ticks for update";

    void set_up(std::string const& level, bool is_empty) {
        make("time decimal(12,3), index(time)");
        isolate(level);
        if (!is_empty)
            a.query("insert into ticks(time) values(1000)");
    }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(version_5_deadlocks_at_repeatable_read, version_5) {
    set_up("repeatable read", false);
    for (auto* const s : {&a, &b})
        s->query("start transaction");
    a.query(look);
    auto blocked = b.start(look);
    wait_for_lock_waits(watcher, 1);
    a.query("insert into ticks(time) values(1004)");
    a.query("commit");
    BOOST_TEST(code_of([&] { blocked.get(); }) == deadlock);
    BOOST_TEST(rows() == 2);
}

// Seen in another library: bucket4j#606.
BOOST_FIXTURE_TEST_CASE(version_5_deadlocks_on_an_empty_table, version_5) {
    set_up("repeatable read", true);
    for (auto* const s : {&a, &b}) {
        s->query("start transaction");
        BOOST_TEST(s->value_of(look) == "NULL");  // both: there is no row to lock
    }
    auto blocked = a.start("insert into ticks(time) values(1004)");
    wait_for_lock_waits(watcher, 1);
    auto const second = code_of([&] { b.query("insert into ticks(time) values(1004.1)"); });
    auto const first = code_of([&] { blocked.get(); });
    BOOST_TEST(first + second == deadlock);
    (first == 0 ? a : b).query("commit");
    BOOST_TEST(rows() == 1);
}

BOOST_FIXTURE_TEST_CASE(version_5_inserts_two_rows_at_read_committed, version_5) {
    set_up("read committed", false);
    for (auto* const s : {&a, &b})
        s->query("start transaction");
    a.query(look);
    auto blocked = b.start(look);
    wait_for_lock_waits(watcher, 1);
    a.query("insert into ticks(time) values(1004)");
    a.query("commit");
    BOOST_TEST(blocked.get().at(0).at(0) == "1000.000");  // this is what it waited for
    b.query("insert into ticks(time) values(1004.1)");
    b.query("commit");
    BOOST_TEST(gap() < 0.2);
}

BOOST_FIXTURE_TEST_CASE(version_5_inserts_two_rows_into_an_empty_table_at_read_committed,
                        version_5) {
    set_up("read committed", true);
    for (auto* const s : {&a, &b}) {
        s->query("start transaction");
        BOOST_TEST(s->value_of(look) == "NULL");
    }
    a.query("insert into ticks(time) values(1004)");
    b.query("insert into ticks(time) values(1004.1)");
    a.query("commit");
    b.query("commit");
    BOOST_TEST(rows() == 2);
}

BOOST_FIXTURE_TEST_CASE(version_5_inserts_two_rows_without_a_transaction, version_5) {
    set_up("repeatable read", false);
    for (auto* const s : {&a, &b})
        BOOST_TEST(s->value_of(look) == "1000.000");  // the lock ends with the statement
    a.query("insert into ticks(time) values(1004)");
    b.query("insert into ticks(time) values(1004.1)");
    BOOST_TEST(gap() < 0.2);
}

BOOST_FIXTURE_TEST_CASE(version_5_without_an_index_blocks_other_inserts, version_5) {
    make("name varchar(9), time decimal(12,3)");
    isolate("repeatable read");
    a.query("insert into ticks(name, time) values('mine', 1000)");
    a.query("start transaction");
    a.query("select max(time) from ticks where name = 'mine' for update");
    auto blocked = b.start("insert into ticks(name, time) values('other', 1)");
    wait_for_lock_waits(watcher, 1);
    a.query("rollback");
    blocked.get();
    BOOST_TEST(rows() == 2);
}

// ---- Now: one statement that reads, decides and stamps, by the clock of the server

namespace {

struct ours : fixture {
    ours() {
        watcher.query(text::create_table());
        for (auto* const s : {&a, &b, &c})
            s->query("set time_zone = '+00:00'");
    }
    static weir::policy::fed::answer take(sql_session& s, std::string const& key) {
        using namespace std::chrono_literals;
        weir::policy::fed::question const q{
            .bucket = weir::policy::shared_bucket::of({.rate = {1, 1h}, .burst = 1})};
        std::vector<sql_session::value> values;
        for (auto const p : text::take().parameters()) {
            if (p == parameter::key)
                values.emplace_back(key);
            else
                values.emplace_back(text::value_of(p, q));
        }
        return text::answer_of(s.insert(text::take().text(), values), q, 0);
    }
    static std::future<weir::policy::fed::answer> start(sql_session& s, std::string key) {
        return std::async(std::launch::async, [&s, key = std::move(key)] { return take(s, key); });
    }
};

constexpr auto levels = {"read committed", "repeatable read", "serializable"};

}  // namespace

BOOST_FIXTURE_TEST_CASE(ours_grants_one_of_two_at_every_level, ours) {
    for (std::string const level : levels) {
        isolate(level);
        for (bool const is_new : {true, false}) {
            auto const key = level + (is_new ? " new" : " old");
            if (!is_new) {
                take(a, key);
                a.query("update weir_bucket set at = 0 where k = '" + key + "'");
            }
            a.query("start transaction");
            BOOST_TEST(take(a, key).granted == 1);
            auto blocked = start(b, key);
            wait_for_lock_waits(watcher, 1);
            a.query("commit");
            auto const second = blocked.get();
            BOOST_TEST(second.granted == 0);
            BOOST_TEST(second.wait.count() > 3'500'000'000);
        }
    }
}

BOOST_FIXTURE_TEST_CASE(ours_grants_rolled_back_permits_to_the_next, ours) {
    for (std::string const level : levels) {
        isolate(level);
        auto const key = "undone " + level;
        a.query("start transaction");
        BOOST_TEST(take(a, key).granted == 1);
        auto blocked = start(b, key);
        wait_for_lock_waits(watcher, 1);
        a.query("rollback");
        BOOST_TEST(blocked.get().granted == 1);
    }
}

// The only possible deadlock: nothing is granted in excess, and the store repeats the loser's question.
BOOST_FIXTURE_TEST_CASE(ours_may_deadlock_if_the_first_of_three_rolls_back_a_new_row, ours) {
    a.query("start transaction");
    BOOST_TEST(take(a, "three").granted == 1);
    auto second = start(b, "three");
    wait_for_lock_waits(watcher, 1);
    auto third = start(c, "three");
    wait_for_lock_waits(watcher, 2);
    a.query("rollback");
    int granted = 0;
    for (auto* const racer : {&second, &third}) {
        int error = 0;
        error = code_of([&] { granted += racer->get().granted == 1; });
        BOOST_TEST((error == 0 || error == deadlock));
    }
    BOOST_TEST(granted == 1);
    BOOST_TEST(take(c, "three").granted == 0);
}

BOOST_FIXTURE_TEST_CASE(ours_grants_one_of_sixteen_for_each_new_name, ours) {
    constexpr int names = 120;
    std::atomic<int> granted = 0;
    std::atomic<int> errors = 0;
    std::vector<std::thread> racers;
    for (int i = 0; i != 16; ++i)
        racers.emplace_back([&] {
            sql_session own(server().socket());
            own.query("set time_zone = '+00:00'");
            for (int name = 0; name != names; ++name)
                errors += code_of([&] {
                              granted += take(own, "name " + std::to_string(name)).granted == 1;
                          }) != 0;
        });
    for (auto& r : racers)
        r.join();
    BOOST_TEST(granted == names);
    BOOST_TEST(errors == 0);
}

BOOST_AUTO_TEST_SUITE_END()
