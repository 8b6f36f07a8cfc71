#include "local_proxy.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

using namespace std::chrono_literals;
using support::field_of;
using support::get;
using support::local_proxy;
using support::ok;
using support::status_of;

namespace {

std::string with(std::string const& rule, std::string const& headers = "both",
                 std::string const& more = "") {
    return "ratelimit_headers = \"" + headers + "\"\n" + support::forwards +
           "limits = [\"r\"]\n[[limit]]\nname = \"r\"\nrule = \"" + rule +
           "\"\nqueue = \"patience 0s\"\n" + more;
}

struct answered {
    explicit answered(std::string const& configuration) : proxy(configuration) {}

    std::string ask() { return ask_with(get); }
    std::string ask_with(std::string_view request) {
        client->send(request);
        proxy.settle();
        return client->take();
    }
    // The RateLimit field of the next response.
    std::string rest() { return field_of(ask(), "RateLimit"); }

    local_proxy proxy;
    std::optional<support::wire> client{proxy.connect()};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(the_header)

// A client that returns after `t` seconds is not rejected.
BOOST_AUTO_TEST_CASE(of_time_is_in_seconds_rounded_up) {
    answered a(with("2/60s"));
    BOOST_TEST(a.rest() == R"("r";r=1;t=60)");
    a.proxy.pass(1ms);
    BOOST_TEST(a.rest() == R"("r";r=0;t=60)");
    a.proxy.pass(100ms);
    BOOST_TEST(a.rest() == R"("r";r=0;t=60)");  // after 59.899 s
    a.proxy.pass(58900ms);
    BOOST_TEST(a.rest() == R"("r";r=0;t=1)");  // after 0.999 s
    a.proxy.pass(999ms);
    BOOST_TEST(status_of(a.ask()) == 200u);
}

BOOST_AUTO_TEST_CASE(of_time_that_is_less_than_a_second_is_a_second) {
    answered a(with("10/1s burst 20"));
    auto const first = a.ask();
    BOOST_TEST(field_of(first, "RateLimit") == R"("r";r=19;t=1)");  // 0.1 s
    BOOST_TEST(field_of(first, "RateLimit-Policy") == R"("r";q=20;w=2)");
    BOOST_TEST(field_of(first, "X-RateLimit-Limit") == "20");
    BOOST_TEST(field_of(first, "X-RateLimit-Remaining") == "19");
    BOOST_TEST(field_of(first, "X-RateLimit-Reset") == "1");
    for (int i = 0; i != 10; ++i)
        a.ask();
    BOOST_TEST(a.rest() == R"("r";r=8;t=2)");  // 1.2 s
}

BOOST_AUTO_TEST_CASE(of_a_rejection_agrees_with_retry_after) {
    answered a(with("1/30s"));
    a.ask();
    a.proxy.pass(600ms);
    auto const rejected = a.ask();
    BOOST_TEST(status_of(rejected) == 429u);
    BOOST_TEST(field_of(rejected, "Retry-After") == "30");
    BOOST_TEST(field_of(rejected, "RateLimit") == R"("r";r=0;t=30)");
    BOOST_TEST(field_of(rejected, "X-RateLimit-Reset") == "30");
}

BOOST_AUTO_TEST_CASE(of_seats_has_no_time) {
    answered a(with("3 seats"));
    auto const first = a.ask();
    BOOST_TEST(field_of(first, "RateLimit") == R"("r";r=2)");
    BOOST_TEST(field_of(first, "RateLimit-Policy") == R"("r";q=3;qu="concurrent-requests")");
    BOOST_TEST(field_of(first, "X-RateLimit-Limit") == "");
}

BOOST_AUTO_TEST_CASE(has_the_configured_fields) {
    for (std::string const which : {"ietf", "legacy", "both", "none"}) {
        BOOST_TEST_CONTEXT(which) {
            answered a(with("9/60s", which));
            auto const first = a.ask();
            bool const ietf = which == "ietf" || which == "both";
            bool const legacy = which == "legacy" || which == "both";
            BOOST_TEST((first.find("\r\nRateLimit: ") != first.npos) == ietf);
            BOOST_TEST((first.find("\r\nRateLimit-Policy: ") != first.npos) == ietf);
            BOOST_TEST((first.find("\r\nX-RateLimit-Limit: ") != first.npos) == legacy);
        }
    }
}

// The response has the set of older fields with fewer remaining permits.
BOOST_AUTO_TEST_CASE(has_one_set_of_the_older_fields) {
    answered a(with("9/60s"));
    for (auto const& [theirs, seen] :
         {std::pair("3", "3"), std::pair("8", "7"), std::pair("6", "6"), std::pair("5", "5")}) {
        a.proxy.upstream.answer = [&](std::string const&) {
            return ok("", std::string("X-RateLimit-Remaining: ") + theirs +
                              "\r\nX-RateLimit-Other: yes\r\n");
        };
        auto const answer = a.ask();
        BOOST_TEST(field_of(answer, "X-RateLimit-Remaining") == seen);
        bool const is_theirs = std::string_view(theirs) == seen;
        BOOST_TEST((field_of(answer, "X-RateLimit-Other") == "yes") == is_theirs);
        BOOST_TEST((field_of(answer, "X-RateLimit-Reset") == "60") != is_theirs);
    }
}

// No field shows a dry run. The older fields describe the limit with the fewest remaining permits.
BOOST_AUTO_TEST_CASE(is_of_each_limit_that_counts) {
    answered a(
        "ratelimit_headers = \"both\"\n" + support::forwards + R"(limits = ["s", "a", "b", "c"]
[[limit]]
name = "s"
rule = "1/60s"
dry_run = true
[[limit]]
name = "a"
rule = "9/60s"
[[limit]]
name = "b"
rule = "4/30s"
[[limit]]
name = "c"
rule = "2 seats"
)");
    auto const first = a.ask();
    BOOST_TEST(field_of(first, "RateLimit") == R"("a";r=8;t=60, "b";r=3;t=30, "c";r=1)");
    BOOST_TEST(field_of(first, "RateLimit-Policy") ==
               R"("a";q=9;w=60, "b";q=4;w=30, "c";q=2;qu="concurrent-requests")");
    BOOST_TEST(field_of(first, "X-RateLimit-Limit") == "4");
    BOOST_TEST(field_of(first, "X-RateLimit-Reset") == "30");
}

// The limiter tells one time for all parts. The field names the part that decides it.
BOOST_AUTO_TEST_CASE(of_several_parts_names_the_one_that_decides_the_time) {
    answered a(with("2/1s & 5/1min"));
    auto const first = a.ask();
    BOOST_TEST(field_of(first, "RateLimit-Policy") == R"("r";q=2;w=1, "r#2";q=5;w=60)");
    BOOST_TEST(field_of(first, "RateLimit") == R"("r";r=1;t=1)");
    BOOST_TEST(a.rest() == R"("r";r=0;t=1)");
    auto const burst = a.ask();
    BOOST_TEST(field_of(burst, "RateLimit") == R"("r";r=0;t=1)");
    BOOST_TEST(field_of(burst, "X-RateLimit-Limit") == "2");
    a.proxy.pass(2s);
    BOOST_TEST(a.rest() == R"("r";r=1;t=1)");
    BOOST_TEST(a.rest() == R"("r#2";r=0;t=58)");  // after 58 s the minute has space for 2
    a.proxy.pass(2s);
    BOOST_TEST(a.rest() == R"("r#2";r=0;t=56)");
    a.proxy.pass(2s);
    auto const used = a.ask_with("GET / HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n");
    BOOST_TEST(status_of(used) == 429u);
    BOOST_TEST(field_of(used, "Retry-After") == "54");
    BOOST_TEST(field_of(used, "RateLimit") == R"("r#2";r=0;t=54)");
    BOOST_TEST(field_of(used, "X-RateLimit-Limit") == "5");
    BOOST_TEST(used.find(R"("violated-policies":["r#2"])") != used.npos);
}

// No time of a seat is known, so an unknown time is the time of the seats.
BOOST_AUTO_TEST_CASE(of_seats_and_a_rate_names_the_seats_while_their_time_is_unknown) {
    answered a(with("2/1min & 2 seats"));
    BOOST_TEST(a.rest() == R"("r#2";r=1)");
    BOOST_TEST(a.rest() == R"("r#2";r=0)");
    BOOST_TEST(a.rest() == R"("r";r=0;t=60)");
}

// The cost is above the smallest quota.
BOOST_AUTO_TEST_CASE(of_a_request_that_costs_too_much_has_no_rest) {
    answered a(with("5/1min & 2/1s", "none", "cost = \"bytes\"\n"));
    auto const rejected = a.ask_with(
        "POST / HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\nContent-Length: 3\r\n\r\nabc");
    BOOST_TEST(status_of(rejected) == 429u);
    BOOST_TEST(field_of(rejected, "RateLimit") == "");
    BOOST_TEST(rejected.find(R"("violated-policies":["r#2"])") != rejected.npos);
}

BOOST_AUTO_TEST_CASE(of_a_key_is_its_own_rule) {
    answered a(
        with("9/60s", "ietf", "key = \"client\"\noverrides = { \"10.0.0.2\" = \"2/30s\" }\n"));
    auto const first = a.ask();
    BOOST_TEST(field_of(first, "RateLimit-Policy").starts_with(R"("r";q=9;w=60;pk=:)"));
    a.client.emplace(a.proxy.connect("10.0.0.2"));
    auto const other = a.ask();
    BOOST_TEST(field_of(other, "RateLimit-Policy").starts_with(R"("r";q=2;w=30;pk=:)"));
    BOOST_TEST(field_of(other, "RateLimit").starts_with(R"("r";r=1;t=30;pk=:)"));
    auto const partition = [](std::string const& text) { return text.substr(text.find(";pk=")); };
    BOOST_TEST(partition(field_of(other, "RateLimit")) ==
               partition(field_of(other, "RateLimit-Policy")));
    BOOST_TEST(partition(field_of(other, "RateLimit")) != partition(field_of(first, "RateLimit")));
}

// The organisation acme saves 3 permits, 1 in 20 s, and takes at most 5 at once. Each other one takes at most 4 at once. The
// tree saves 9, 1 in 5 s, of which acme can save 3.
struct tree_of_organisations : answered {
    tree_of_organisations()
        : answered("ratelimit_headers = \"both\"\n" + support::forwards + R"(limits = ["r"]
[[limit]]
name = "r"
key = "header X-Org"
queue = "patience 0s"
[limit.tree]
"/" = "12/1min burst 9"
"/acme" = "3/1min burst 3 most 6/1min burst 5"
"/*" = "most 1/10s burst 4"
)") {}

    std::string of(std::string const& org) {
        return ask_with("GET / HTTP/1.1\r\nHost: a\r\nX-Org: " + org + "\r\n\r\n");
    }
    std::string field(std::string const& org, std::string const& name = "RateLimit") {
        auto const value = field_of(of(org), name);
        return value.substr(0, value.find(";pk=:"));
    }
};

// `r` is the largest request that the leaf could be granted at once, and `t` the time until that is its largest of all.
BOOST_FIXTURE_TEST_CASE(of_a_leaf_that_borrows, tree_of_organisations) {
    BOOST_TEST(field("a") == R"("r";r=3;t=10)");
    BOOST_TEST(field("a") == R"("r";r=2;t=20)");
    proxy.pass(10s);
    BOOST_TEST(field("a") == R"("r";r=2;t=20)");
    BOOST_TEST(field("a") == R"("r";r=1;t=30)");
    BOOST_TEST(field("a") == R"("r";r=0;t=40)");
    auto const rejected = of("a");
    BOOST_TEST(status_of(rejected) == 429u);
    BOOST_TEST(field_of(rejected, "Retry-After") == "10");
    BOOST_TEST(field_of(rejected, "RateLimit").starts_with(R"("r";r=0;t=10;pk=:)"));
}

// The permits that acme has saved are not lent. The other leaves borrow from one rest.
BOOST_FIXTURE_TEST_CASE(of_a_leaf_does_not_count_the_permits_of_others, tree_of_organisations) {
    for (int i = 0; i != 4; ++i)
        of("a");
    BOOST_TEST(field("b") == R"("r";r=1;t=15)");  // the tree has 1 of 4 permits to lend
    BOOST_TEST(field("b") == R"("r";r=0;t=20)");
    auto const rejected = of("b");
    BOOST_TEST(field_of(rejected, "Retry-After") == "5");
    BOOST_TEST(field_of(rejected, "RateLimit").starts_with(R"("r";r=0;t=5;pk=:)"));
}

// The permits that a leaf has saved are certain.
BOOST_FIXTURE_TEST_CASE(of_a_leaf_has_its_saved_permits, tree_of_organisations) {
    for (auto const* const org : {"a", "a", "a", "a", "b", "b", "b"})
        of(org);
    BOOST_TEST(field("acme") == R"("r";r=2;t=20)");
    BOOST_TEST(field("acme") == R"("r";r=1;t=40)");
    BOOST_TEST(field("acme") == R"("r";r=0;t=60)");
    // The tree gets 12 a minute, of which acme saves 3: it lends 1 in 6.7 s.
    auto const rejected = of("acme");
    BOOST_TEST(status_of(rejected) == 429u);
    BOOST_TEST(field_of(rejected, "Retry-After") == "7");
    BOOST_TEST(field_of(rejected, "RateLimit").starts_with(R"("r";r=0;t=7;pk=:)"));
    proxy.pass(6999ms);
    BOOST_TEST(status_of(of("acme")) == 200u);
}

BOOST_FIXTURE_TEST_CASE(of_a_leaf_states_its_own_quota, tree_of_organisations) {
    BOOST_TEST(field("acme", "RateLimit-Policy") == R"("r";q=6;w=60)");
    auto const other = of("a");
    auto const policy = field_of(other, "RateLimit-Policy");
    BOOST_TEST(policy.starts_with(R"("r";q=4;w=40;pk=:)"));
    BOOST_TEST(field_of(other, "X-RateLimit-Limit") == "4");
    BOOST_TEST(field_of(other, "X-RateLimit-Remaining") == "3");
    BOOST_TEST(field_of(other, "X-RateLimit-Reset") == "10");
    auto const partition = [](std::string const& text) { return text.substr(text.find(";pk=")); };
    BOOST_TEST(partition(field_of(other, "RateLimit")) == partition(policy));
    BOOST_TEST(partition(field_of(of("b"), "RateLimit")) != partition(policy));
}

BOOST_AUTO_TEST_SUITE_END()
