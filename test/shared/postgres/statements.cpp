#include "weir/postgres/statements.hpp"

#include "shared/postgres/place.hpp"
#include "shared/postgres/server.hpp"
#include "support/shared_bucket_oracle.hpp"

#include <boost/test/tree/decorator.hpp>
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <string>
#include <vector>

// The statements of weir::postgres on a real server, in virtual time: a function `clock_timestamp` in a schema that is
// searched first replaces the function of the server.

namespace text = weir::postgres::detail;
using text::statement_text;
using parameter = statement_text::parameter;
using weir::policy::fed;

struct statements {
    static constexpr auto& if_here = support::if_postgres_is_here;

    support::postgres_session session{support::postgres()};
    std::int64_t now = 1'000'000'000'000'000;
    int names = 0;

    support::told_store const store{
        [this](fed::question const& q, std::int64_t at) { return take(q, at); },
        [this](fed::give_back const& what, std::int64_t at) {
            set_clock(at);
            execute(what.bucket.window != 0 ? text::give_back_to_log(text::saving::soon)
                                            : text::give_back(text::saving::soon),
                    what);
        },
        [this] { ++names; }};

    statements() {
        session.query("drop schema if exists virtual cascade");
        session.query("create schema virtual");
        session.query(
            "create function virtual.clock_timestamp() returns timestamptz volatile language sql "
            "as $$ select timestamptz 'epoch' + current_setting('weir.now')::bigint * interval '1 "
            "microsecond' $$");
        session.query("set search_path = virtual, pg_catalog, public");
        session.query("set timezone = 'UTC'");
        session.query(std::string(text::create_table()));
        session.query(std::string(text::create_log_table()));
    }

    void set_clock(std::int64_t at) { session.query("set weir.now = " + std::to_string(at)); }
    fed::answer take(fed::question const& q, std::int64_t at) {
        set_clock(at);
        auto const row = execute(q.bucket.window != 0 ? text::take_of_log(text::saving::soon)
                                                      : text::take(text::saving::soon),
                                 q)
                             .at(0);
        return text::answer_of(
            std::stoll(row[0]), std::stoll(row[1]), std::stoll(row[2]), row[3] == "t");
    }
    weir::amount longest_log() {
        return session.number("select max(cardinality(grants)) from weir_log");
    }

private:
    template <class Order>
    std::vector<support::postgres_session::row> execute(statement_text const& said,
                                                        Order const& order) {
        std::vector<support::postgres_session::value> all;
        for (auto const p : said.parameters()) {
            if (p == parameter::key)
                all.emplace_back(std::to_string(names));
            else
                all.emplace_back(value_of(p, order));
        }
        return session.query(said.text(), all);
    }
};

BOOST_AUTO_TEST_SUITE(postgres_text)

BOOST_AUTO_TEST_CASE(names_become_numbers_and_casts_stay) {
    statement_text const said("x", "select :most::int, :least, a[1:(:most)::int] where k = :key");
    BOOST_TEST(said.text() == "select $1::int, $2, a[1:($1)::int] where k = $3");
    BOOST_TEST(
        (said.parameters() == std::vector{parameter::most, parameter::least, parameter::key}));
}

BOOST_AUTO_TEST_SUITE_END()

#include "shared/statement_tests.hpp"
