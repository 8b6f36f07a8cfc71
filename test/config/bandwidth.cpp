#include "config/bandwidth.hpp"

#include "config/configuration.hpp"
#include "config/read.hpp"
#include "config/write.hpp"
#include "problem.hpp"

#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

// Files of this folder are compiled together.
namespace limits_of_bytes {
namespace {

std::string file(std::string_view limit, std::string_view route = "") {
    return fmt::format("[[upstream]]\nname = \"a\"\nservers = [\"127.0.0.1:1\"]\n[[limit]]\nname = "
                       "\"bytes\"\n{}\n{}",
                       limit, route);
}

bool is_refused_in_limit(std::string_view limit, std::string_view why,
                         std::string_view route = "") {
    return is_refused(file(limit, route), why);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(bandwidth)

BOOST_AUTO_TEST_CASE(has_units_and_a_burst_of_50_ms) {
    struct line {
        std::string_view text;
        weir::amount per_second;
        weir::amount burst;
        std::string_view again;
    };
    for (auto const& l :
         {line{"10MB/s", 10'000'000, 500'000, "10MB/s"},
          {"10MB/s burst 1MB", 10'000'000, 1'000'000, "10MB/s burst 1MB"},
          {"10MB/s burst 500kB", 10'000'000, 500'000, "10MB/s"},
          {"1B/s", 1, 16'384, "1B/s"},
          {"100kB/s", 100'000, 16'384, "100kB/s"},
          {"1500kB/s burst 1B", 1'500'000, 1, "1500kB/s burst 1B"},
          {"512KiB/s", 524'288, 26'214, "512KiB/s"},
          {"3MiB/s burst 1GiB", 3'145'728, 1'073'741'824, "3MiB/s burst 1GiB"},
          {"2GB/s", 2'000'000'000, 100'000'000, "2GB/s"},
          {"1000GB/s", 1'000'000'000'000, 50'000'000'000, "1000GB/s"}}) {
        auto const made = config::byte_rate_of(l.text);
        BOOST_REQUIRE(made.has_value());
        BOOST_TEST(made->per_second == l.per_second);
        BOOST_TEST(made->burst == l.burst);
        BOOST_TEST(to_string(*made) == l.again);
    }
    for (std::string_view const wrong :
         {"", "10", "10MB", "MB/s", "10 MB/s", "10mb/s", "0MB/s", "-1MB/s", "1.5MB/s", "1001GB/s",
          "1MB/s burst", "1MB/s burst 0B", "1MB/s burst 1MB/s", "1MB/s burst 2000GB",
          "1MB/s  burst 1MB", "1MB/min", "99999999999999999999B/s", "1MB/s burst 1MB burst 1MB"})
        BOOST_TEST(!config::byte_rate_of(wrong).has_value(), wrong);
}

BOOST_AUTO_TEST_CASE(is_not_reached_with_a_burst_of_less_than_a_millisecond) {
    auto const limit = config::read(file("bandwidth = { up = '1MB/s burst 999B', "
                                         "down = '1MB/s burst 1kB' }"),
                                    "f");
    BOOST_REQUIRE(limit.warnings.size() == 1);
    BOOST_TEST(limit.warnings.front().ends_with(
        ": warning: limit `bytes`: the burst of `1MB/s burst 999B` is less than the bytes of 1 ms: "
        "the bytes pass more slowly"));
    auto const own = config::read(
        "[[upstream]]\nname = 'a'\nservers = ['127.0.0.1:1']\n[[listen]]\naddress = "
        "'127.0.0.1:1'\ntcp = { upstream = 'a', bandwidth = { down = '1GB/s burst "
        "1B' } }\n",
        "f");
    BOOST_REQUIRE(own.warnings.size() == 1);
    BOOST_TEST(own.warnings.front().find("warning: `tcp`: the burst of `1GB/s burst 1B`") !=
               std::string::npos);
}

BOOST_AUTO_TEST_CASE(is_written_as_it_is_read) {
    auto const text =
        file("key = 'client'\nmax_keys = 7\nbandwidth = { up = '1MB/s burst 1kB', "
             "down = '10MB/s' }",
             "[[limit]]\nname = \"r\"\nrule = \"1/1s\"\n[[route]]\nupstream = "
             "\"a\"\nlimits = [\"bytes\", \"r\"]");
    auto const once = config::read(text, "f");
    BOOST_TEST(once.warnings.empty());
    auto const written = config::write(once);
    auto const twice = config::read(written, "f");
    BOOST_TEST(config::write(twice) == written);
    for (auto const* const c : {&once, &twice}) {
        BOOST_REQUIRE(c->bandwidths.size() == 1u);
        auto const& l = c->bandwidths.front();
        BOOST_TEST(l.name == "bytes");
        BOOST_TEST(l.max_keys == 7);
        BOOST_TEST(l.key.size() == 1u);
        BOOST_REQUIRE((l.bandwidth && l.bandwidth->up && l.bandwidth->down));
        BOOST_TEST((*l.bandwidth->up == config::byte_rate{1'000'000, 1'000}));
        BOOST_TEST((*l.bandwidth->down == config::byte_rate{10'000'000, 500'000}));
        BOOST_REQUIRE(c->limits.size() == 1u);
        BOOST_TEST(c->limits.front().name == "r");
        BOOST_TEST(c->routes.front().limits == std::vector<std::string>{"r"});
        BOOST_TEST(c->routes.front().bandwidths == std::vector<std::string>{"bytes"});
    }
}

BOOST_AUTO_TEST_CASE(is_of_the_default_route) {
    auto const c = config::read(file("bandwidth = { up = '1MB/s' }"), "f");
    BOOST_TEST(c.routes.front().bandwidths == std::vector<std::string>{"bytes"});
    BOOST_TEST(!c.bandwidths.front().bandwidth->down);
}

BOOST_AUTO_TEST_CASE(excludes_what_counts_requests) {
    std::string const right = "bandwidth = { down = '1MB/s' }\n";
    for (std::string_view const other :
         {"rule = '1/1s'", "engine = 'x'", "cost = 5", "estimate = 5", "count = 401",
          "when_full = 'reject'", "queue = 'patience 1s'", "priority = 'P'", "weights = { a = 1 }",
          "store = 's'", "tree = { \"/\" = '1/1s' }"}) {
        auto const key = other.substr(0, other.find(' '));
        auto const problem = problem_of(file("key = 'client'\n" + right + std::string(other)));
        BOOST_TEST(problem.find(fmt::format("`bandwidth` and `{}` exclude each other", key)) !=
                       problem.npos,
                   problem);
        BOOST_TEST(problem.find('\n') == problem.npos, problem);  // one sentence
    }
    BOOST_TEST(is_refused_in_limit(right + "shared_as = 'x'", "`shared_as` requires `store`"));
    BOOST_TEST(is_refused_in_limit(right + "max_keys = 5", "`max_keys` requires a `key`"));
    BOOST_TEST(is_refused_in_limit("bandwidth = {}", "missing `up`"));
    BOOST_TEST(is_refused_in_limit("bandwidth = '1MB/s'", "must be a table"));
    BOOST_TEST(is_refused_in_limit("bandwidth = { down = 5 }", "must be a rate of bytes"));
    BOOST_TEST(is_refused_in_limit("bandwidth = { both = '1MB/s' }", "both"));
}

BOOST_AUTO_TEST_CASE(may_have_overrides_and_a_dry_run) {
    std::string const usual = "bandwidth = { up = '1MB/s', down = '2MB/s' }\n";
    auto const once = config::read(
        file(usual +
             "key = 'header User'\ndry_run = true\noverrides = { a = { down = '9MB/s' }, b = "
             "'unlimited', c = { up = 'unlimited', down = '1kB/s burst 1B' } }"),
        "f");
    BOOST_TEST(once.warnings.empty());
    auto const written = config::write(once);
    auto const twice = config::read(written, "f");
    BOOST_TEST(config::write(twice) == written);
    for (auto const* const c : {&once, &twice}) {
        auto const& l = c->bandwidths.front();
        BOOST_TEST(l.dry_run);
        BOOST_TEST(l.overrides.empty());
        BOOST_REQUIRE(l.byte_overrides.size() == 3u);
        config::byte_rate const up{1'000'000, 50'000};
        auto const rate = [&](std::uint32_t by, config::direction d) {
            return config::rate_of(l, d, by);
        };
        using b = config::bandwidth;
        BOOST_TEST(l.byte_overrides[0].first == "a");
        BOOST_TEST((rate(0, &b::up) == up));  // a direction without a rate has the usual one
        BOOST_TEST((rate(0, &b::down) == config::byte_rate{9'000'000, 450'000}));
        BOOST_TEST(!rate(1, &b::up));
        BOOST_TEST(!rate(1, &b::down));
        BOOST_TEST(!rate(2, &b::up));
        BOOST_TEST((rate(2, &b::down) == config::byte_rate{1'000, 1}));
        BOOST_TEST((config::rate_of(l, &b::up) == up));
    }
    auto const one = config::read(file("bandwidth = { up = '1MB/s' }\nkey = 'client'\noverrides = "
                                       "{ '10.0.0.0/8' = { down = '1MB/s' } }"),
                                  "f");
    BOOST_TEST(config::has_rate(one.bandwidths.front(), &config::bandwidth::down));
    BOOST_TEST(config::limiter_of(one.bandwidths.front(), &config::bandwidth::down).is_unlimited);
    BOOST_TEST(config::write(config::read(config::write(one), "f")) == config::write(one));

    for (std::string_view const wrong :
         {"'1MB/s'", "'1/1s'", "{}", "{ down = 5 }", "{ both = '1MB/s' }", "{ down = '1MB' }", "5"})
        BOOST_TEST(is_refused_in_limit(
            fmt::format("{}key = 'header User'\noverrides = {{ a = {} }}", usual, wrong),
            "must be rates of bytes"));
    BOOST_TEST(is_refused_in_limit(
        usual + "overrides = { a = 'unlimited' }", "`overrides` requires a `key` with one part"));
    BOOST_TEST(is_refused_in_limit(
        usual + "key = 'client'\noverrides = { a = 'unlimited' }", "`a` is not a client"));
    BOOST_TEST(is_refused_in_limit(
        usual + "key = 'client'\noverrides = { '10.0.0.0/8' = 'unlimited', "
                "'10.0.0.0/8 ' = 'unlimited' }",
        "client"));
    BOOST_TEST(is_refused_in_limit(usual + "key = 'header U'\nmax_keys = 1\noverrides = { a = { up "
                                           "= '1MB/s' }, b = { up = '2MB/s' } }",
                                   "2 overrides exceed `max_keys` (1)"));
}

BOOST_AUTO_TEST_CASE(requires_an_upstream) {
    std::string const right = "bandwidth = { down = '1MB/s' }\n";
    constexpr std::string_view why = "limit `bytes` has `bandwidth`, which requires `upstream`";
    BOOST_TEST(is_refused_in_limit(right, why, "[[route]]\nrespond = 200\nlimits = 'bytes'"));
    BOOST_TEST(is_refused_in_limit(right, why, "[[route]]\ncheck = true\nlimits = 'bytes'"));
    BOOST_TEST(is_refused_in_limit(right, "duplicate limit `bytes`",
                                   "[[route]]\nupstream = 'a'\nlimits = ['bytes', 'bytes']"));
}

BOOST_AUTO_TEST_CASE(is_of_a_listener_of_requests) {
    std::string const listen = "[[listen]]\naddress = '127.0.0.1:1'\nlimits = 'bytes'\n";
    std::string const right = "bandwidth = { down = '1MB/s' }\n";
    auto const once = config::read(file(right, listen), "f");
    BOOST_TEST(once.warnings.empty());
    auto const twice = config::read(config::write(once), "f");
    for (auto const* const c : {&once, &twice}) {
        BOOST_TEST(c->listeners.front().bandwidths == std::vector<std::string>{"bytes"});
        BOOST_TEST(c->routes.front().bandwidths.empty());  // the default route
    }
    auto const both =
        config::read(file(right, listen + "[[route]]\nupstream = 'a'\nlimits = 'bytes'"), "f");
    BOOST_TEST(both.routes.front().bandwidths == std::vector<std::string>{"bytes"});

    BOOST_TEST(is_refused_in_limit(
        "rule = '1/1s'", "limit `bytes` counts requests: name it in a [[route]]", listen));
    BOOST_TEST(
        is_refused_in_limit(right, "duplicate limit `bytes`",
                            "[[listen]]\naddress = '127.0.0.1:1'\nlimits = ['bytes', 'bytes']"));
    BOOST_TEST(is_refused_in_limit(
        right, "unknown limit `other`", "[[listen]]\naddress = '127.0.0.1:1'\nlimits = 'other'"));
    BOOST_TEST(is_refused_in_limit(
        right, "`limits` and `https_port` exclude each other", listen + "https_port = 443"));
    BOOST_TEST(
        is_refused_in_limit(right, "`limits` and `tcp` exclude each other: `tcp` has its own",
                            listen + "tcp = { upstream = 'a' }"));
    BOOST_TEST(is_refused_in_limit(
        right, "`limits` and `check` exclude each other",
        "[clients]\ntrusted = '127.0.0.1'\n" + listen +
            "check = {}\n[[route]]\ncheck = true\n[[route]]\nupstream = 'a'"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace limits_of_bytes
