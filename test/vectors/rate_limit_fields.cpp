// Fields of responses that state limits: each case of rate-limit-fields.json, and broken forms of them.

#include <weir/rate_limit_fields.hpp>

#include "support/random.hpp"

#include <boost/json/src.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace json = boost::json;
using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::system_clock;
using weir::duration;
using weir::http_field;

BOOST_AUTO_TEST_SUITE(rate_limit_fields)

namespace {

json::array const& all_vectors() {
    static json::value const document = [] {
        std::ifstream file(WEIR_RATE_LIMIT_FIELDS);
        BOOST_TEST_REQUIRE(file.is_open());
        return json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
    }();
    return document.as_array();
}

std::string text(json::value const& v) {
    return json::value_to<std::string>(v);
}

std::optional<duration> time_of(json::value const* v) {
    return v && !v->is_null() ? std::optional<duration>(milliseconds(v->as_int64())) : std::nullopt;
}

weir::rate_limit_fields wanted(json::object const& v) {
    weir::rate_limit_fields all{time_of(v.if_contains("pause_ms")), {}};
    for (auto const& each : v.at("quotas").as_array()) {
        auto const& q = each.as_object();
        auto const* const limit = q.if_contains("limit");
        all.quotas.push_back(
            {text(q.at("name")), q.at("remaining").as_int64(), time_of(q.if_contains("reset_ms")),
             limit ? std::optional(limit->as_int64()) : std::nullopt});
    }
    return all;
}

using texts = std::vector<std::pair<std::string, std::string>>;

texts fields_of(json::object const& v) {
    texts all;
    for (auto const& f : v.at("fields").as_array())
        all.emplace_back(text(f.at(0)), text(f.at(1)));
    return all;
}

weir::rate_limit_fields read(int status, texts const& fields, system_clock::time_point now) {
    std::vector<http_field> views;
    for (auto const& [name, value] : fields)
        views.push_back({name, value});
    return weir::read_rate_limit_fields(status, views, now);
}

weir::rate_limit_fields read(texts const& fields) {
    return read(200, fields, system_clock::time_point(1'795'428'000s));
}

std::string to_string(weir::rate_limit_fields const& f) {
    auto const in_ms = [](std::optional<duration> d) {
        return d ? std::to_string(*d / 1ms) + "ms" : std::string("none");
    };
    auto all = "retry after " + in_ms(f.retry_after);
    for (auto const& q : f.quotas)
        all += ", \"" + q.name + "\" " + std::to_string(q.remaining) + " until " + in_ms(q.reset) +
               " of " + (q.limit ? std::to_string(*q.limit) : "none");
    return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(are_read_as_in_the_vectors) {
    int compared = 0;
    for (auto const& each : all_vectors()) {
        auto const& v = each.as_object();
        auto const now = system_clock::time_point(std::chrono::seconds(v.at("now").as_int64()));
        auto const got = read(static_cast<int>(v.at("status").as_int64()), fields_of(v), now);
        BOOST_TEST_CONTEXT(text(v.at("id")))
        BOOST_TEST(to_string(got) == to_string(wanted(v)));
        ++compared;
    }
    BOOST_TEST(compared == 85);
}

// Each number is in its range for any bytes, and there are at most 16 quotas.
BOOST_AUTO_TEST_CASE(stay_in_their_ranges_when_fields_are_broken) {
    std::string const bytes("\0\t \"\\;,=:?@%()-+.0159TZsmhu\x7f\xff", 30);
    support::for_each_seed(1, 10'000, [&](support::random_source& random) {
        auto const& v = all_vectors()[random.index_in(all_vectors())].as_object();
        auto fields = fields_of(v);
        for (auto& [name, value] : fields) {
            if (value.empty() || random.one_in(2))
                continue;
            auto const at = random.index_in(value);
            switch (random.between(0, 2)) {
                case 0:
                    value.resize(at);
                    break;
                case 1:
                    value[at] = bytes[random.index_in(bytes)];
                    break;
                default:
                    value.insert(at, 1, bytes[random.index_in(bytes)]);
                    break;
            }
        }
        auto const got = read(429, fields, system_clock::time_point(1'795'428'000s));
        auto const in_range = [](std::optional<duration> d) {
            return !d || (*d >= 0s && *d <= 366 * 24h);
        };
        BOOST_TEST_REQUIRE(in_range(got.retry_after));
        BOOST_TEST_REQUIRE(got.quotas.size() <= 16U);
        for (auto const& q : got.quotas) {
            BOOST_TEST_REQUIRE(in_range(q.reset));
            BOOST_TEST_REQUIRE(q.remaining >= 0);
            BOOST_TEST_REQUIRE(q.remaining < weir::max_amount);
        }
    });
}

BOOST_AUTO_TEST_CASE(name_their_quotas) {
    auto const kong =
        read({{"X-RateLimit-Remaining-Minute", "3"},
              {"X-RateLimit-Limit-Minute", "20"},
              {"X-RateLimit-Remaining-Hour", "90"},
              {"X-RateLimit-Remaining-", "7"}});
    BOOST_TEST(to_string(kong) ==
               "retry after none, \"minute\" 3 until none of 20, \"hour\" 90 until none of none");
    BOOST_TEST(kong.find("hour") == &kong.quotas[1]);
    BOOST_TEST(kong.find() == &kong.quotas[0]);
    BOOST_TEST(kong.find("day") == nullptr);
    BOOST_TEST(read({}).find() == nullptr);
}

// A structured list has members of other kinds, too, and only quotas count.
BOOST_AUTO_TEST_CASE(skip_members_of_lists_that_are_no_strings) {
    BOOST_TEST(
        to_string(read({{"RateLimit", R"(("a" 1.5);r=1, 7;r=2, :YWI=:;r=3, ?1, @12, %"x%20";r=4, )"
                                      R"(t/x:y;r=5, "b";r=6;x=-1.25;y=(;t=3)"}})) ==
        "retry after none");  // `(` is not a value of a parameter
    BOOST_TEST(
        to_string(read({{"RateLimit", R"(("a" 1.5);r=1, 7;r=2, :YWI=:;r=3, ?1, @12, %"x%20";r=4, )"
                                      R"(t/x:y;r=5, "b";r=6;x=-1.25;y;t=3)"}})) ==
        "retry after none, \"b\" 6 until 3000ms of none");
    BOOST_TEST(read({{"RateLimit", R"("a";r=1 "b";r=2)"}}).quotas.empty());
    BOOST_TEST(read({{"RateLimit", R"("a";r=1, ("b")"}}).quotas.empty());
    BOOST_TEST(read({{"RateLimit", R"("a\n";r=1)"}}).quotas.empty());
}

BOOST_AUTO_TEST_CASE(follow_the_grammar_of_lists) {
    auto const b = "retry after none, \"b\" 6 until none of none";
    BOOST_TEST(to_string(read({{"RateLimit", R"(%"C:\", "b";r=6)"}})) == b);
    BOOST_TEST(to_string(read({{"RateLimit", R"(%"%41%c3%bc";x, "b";r=6)"}})) == b);
    BOOST_TEST(read({{"RateLimit", R"(%"%zz", "b";r=6)"}}).quotas.empty());
    BOOST_TEST(read({{"RateLimit", R"(%"%4)"}}).quotas.empty());
    BOOST_TEST(read({{"RateLimit", R"(%"a)"}}).quotas.empty());
    BOOST_TEST(to_string(read({{"RateLimit", R"("b";x=123456789012.5;r=6)"}})) == b);
    BOOST_TEST(read({{"RateLimit", R"("b";x=0000000000001.5;r=6)"}}).quotas.empty());
}

BOOST_AUTO_TEST_CASE(are_read_beside_unreadable_ones) {
    BOOST_TEST(to_string(read({{"X-RateLimit-Remaining", "1"},
                               {"X-RateLimit-Reset-After", "soon"},
                               {"X-RateLimit-Reset", "30"},
                               {"X-RateLimit-Remaining-Tokens", "7"}})) ==
               "retry after none, \"\" 1 until 30000ms of none, \"tokens\" 7 until none of none");
    texts many;
    for (int i = 0; i != 100; ++i)
        many.emplace_back("X-RateLimit-Remaining-" + std::to_string(i), "?");
    many.emplace_back("X-RateLimit-Remaining-last", "1");
    BOOST_TEST(read(many).quotas.empty());
}

BOOST_AUTO_TEST_CASE(are_at_most_16_quotas) {
    std::string list;
    texts named;
    for (int i = 0; i != 40; ++i) {
        list += (i ? ", \"" : "\"") + std::to_string(i) + "\";r=1";
        named.emplace_back("X-RateLimit-Remaining-" + std::to_string(i), "1");
    }
    BOOST_TEST(read({{"RateLimit", list}}).quotas.size() == 16U);
    BOOST_TEST(read(named).quotas.size() == 16U);
}

BOOST_AUTO_TEST_CASE(round_times_up_to_milliseconds) {
    BOOST_TEST(to_string(read({{"X-RateLimit-Remaining", "1"}, {"X-RateLimit-Reset", "2.0001"}})) ==
               "retry after none, \"\" 1 until 2001ms of none");
}

// The year of two digits is at most 50 years ahead.
BOOST_AUTO_TEST_CASE(have_dates_in_the_right_century) {
    auto const past = read(503, {{"Retry-After", "Sunday, 06-Nov-94 08:49:37 GMT"}},
                           system_clock::time_point(1'795'428'000s));
    BOOST_TEST(to_string(past) == "retry after 0ms");
    auto const century =
        read(503, {{"Retry-After", "Friday, 01-Jan-00 00:00:10 GMT"}},
             std::chrono::sys_days(std::chrono::year(2099) / 12 / 31) + 23h + 59min + 50s);
    BOOST_TEST(to_string(century) == "retry after 20000ms");
}

BOOST_AUTO_TEST_SUITE_END()
