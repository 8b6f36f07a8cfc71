#include "weir/mysql/statements.hpp"

#include "shared/mysql/server.hpp"
#include "shared/mysql/sql.hpp"
#include "support/shared_bucket_oracle.hpp"

#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

// The statements of weir::mysql on a real server, in virtual time: the server runs with --sysdate-is-now, so that
// `set timestamp` moves its clock. (The store rejects such a server.)

namespace text = weir::mysql::detail;
using text::answer_of;
using text::statement_text;
using parameter = statement_text::parameter;
using weir::policy::fed;

constexpr std::int64_t noon = 1'000'000'000'000'000;

struct statements {
    static constexpr auto& if_here = support::if_mariadb_is_here;

    support::mariadb_server server{{"--sysdate-is-now"}};
    support::sql_session session{server.socket()};
    std::int64_t now = noon;
    int names = 0;

    support::told_store const store{
        [this](fed::question const& q, std::int64_t at) { return take(q, at); },
        [this](fed::give_back const& what, std::int64_t at) {
            set_clock(at);
            auto const& said =
                what.bucket.window != 0 ? text::give_back_to_log() : text::give_back();
            session.insert(said.text(), values(said, what));
        },
        [this] { ++names; }};

    statements() {
        session.query("set time_zone = '+00:00'");
        session.query(text::create_table());
        session.query(text::create_log_table());
    }

    void set_clock(std::int64_t at) {
        session.query(fmt::format("set timestamp = {}.{:06}", at / 1'000'000, at % 1'000'000));
    }
    fed::answer take(fed::question const& q, std::int64_t at) {
        set_clock(at);
        auto const& said = q.bucket.window != 0 ? text::take_of_log() : text::take();
        return answer_of(session.insert(said.text(), values(said, q)), q, at + 1'000'000);
    }

    template <class Order>
    std::vector<support::sql_session::value> values(statement_text const& said,
                                                    Order const& order) const {
        std::vector<support::sql_session::value> all;
        for (auto const p : said.parameters()) {
            if (p == parameter::key)
                all.emplace_back(std::to_string(names));
            else
                all.emplace_back(value_of(p, order));
        }
        return all;
    }

    weir::amount longest_log() {
        return session.number("select max(length(grants)) from weir_log") / 8;
    }
};

BOOST_AUTO_TEST_SUITE(mysql_text)

BOOST_AUTO_TEST_CASE(names_become_question_marks) {
    statement_text const said("update x set a := :least + :most, b = :least where k = :key");
    BOOST_TEST(said.text() == "update x set a := ? + ?, b = ? where k = ?");
    BOOST_TEST((said.parameters() ==
                std::vector{parameter::least, parameter::most, parameter::least, parameter::key}));
}

BOOST_AUTO_TEST_CASE(reply_has_the_time_of_the_server_within_half_an_hour) {
    fed::question const q{.bucket = {}, .min = 3, .max = 9};
    auto const id = [](std::int64_t value, std::int64_t time, std::uint64_t kind) {
        auto const low = static_cast<std::uint64_t>(time) % (std::uint64_t{1} << 32);
        return 4 * (static_cast<std::uint64_t>(value) + (low << 29)) + kind;
    };
    for (std::int64_t const off : {-1'800'000'000, -1, 0, 1, 1'800'000'000}) {
        auto const granted = answer_of(id(7, noon, 1), q, noon + off);
        BOOST_TEST(granted.granted == 7);
        BOOST_TEST(granted.wait.count() == 0);
        BOOST_TEST(granted.since == noon);
        auto const booked = answer_of(id(12'345, noon, 2), q, noon + off);
        BOOST_TEST(booked.granted == 3);
        BOOST_TEST(booked.wait.count() == 12'345);
        BOOST_TEST(booked.since == noon + 12'345);
    }
    auto const denied = answer_of(4 * std::uint64_t{1} << 60, q, noon);
    BOOST_TEST(denied.granted == 0);
    BOOST_TEST(denied.wait.count() == std::int64_t{1} << 60);
    BOOST_TEST(!text::time_of(400, noon));
}

BOOST_AUTO_TEST_SUITE_END()

#include "shared/statement_tests.hpp"
