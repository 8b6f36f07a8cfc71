#include "proxy/quota.hpp"

#include <weir/policy/tree/plan.hpp>

#include "support/wall_clock.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

using namespace std::chrono_literals;

using proxy::policy;
using proxy::quotas_of;

namespace {

weir::limiter_config rule(std::string const& text) {
    return weir::limiter_config::parse(text);
}

// The items of RateLimit-Policy.
std::string told(policy const& p) {
    std::string all;
    for (std::size_t n = 0; n != p.quotas.size(); ++n) {
        all += n == 0 ? "" : ", ";
        append_item(all, p.names[n], p.quotas[n]);
    }
    return all;
}
std::string told(std::string const& text) {
    return told(proxy::rule_quotas("a", rule(text)).now());
}

// The number of allocated bytes, if it is known.
std::size_t in_use() {
#if defined(__GLIBC__)
    return ::mallinfo2().uordblks;  // 0 with a sanitizer, which has its own allocator
#else
    return 0;
#endif
}

}  // namespace

BOOST_AUTO_TEST_SUITE(quotas)

BOOST_AUTO_TEST_CASE(of_each_kind) {
    BOOST_TEST(told("5/1min penalty") == "");
    BOOST_TEST(told("3 seats") == R"("a";q=3;qu="concurrent-requests")");
    BOOST_TEST(told("3 seats rest 2s") == R"("a";q=3;qu="concurrent-requests")");
    BOOST_TEST(told("20 vegas max 40") == R"("a";q=40;qu="concurrent-requests")");
    BOOST_TEST(told("10/60s") == R"("a";q=10;w=60)");
    BOOST_TEST(told("10/60s sliding") == R"("a";q=10;w=60)");
    BOOST_TEST(told("10/60s fixed") == R"("a";q=10;w=60)");
    BOOST_TEST(told("10/60s bucket") == R"("a";q=10;w=60)");
    BOOST_TEST(told("10/1s leaky capacity 20") == R"("a";q=20;w=2)");
    BOOST_TEST(told("10/1s bursty max_burst 3s") == R"("a";q=30;w=3)");
    BOOST_TEST(told("10/1s warming") == R"("a";q=10;w=1)");
    BOOST_TEST(told("10/1s & 100/1min") == R"("a";q=10;w=1, "a#2";q=100;w=60)");
    BOOST_TEST(told("5 seats & 10/1s & 100/1min") ==
               R"("a";q=5;qu="concurrent-requests", "a#2";q=10;w=1, "a#3";q=100;w=60)");
}

// A leaf has the lowest rate on its path, with a burst of its largest request.
BOOST_AUTO_TEST_CASE(of_the_leaves_of_a_tree) {
    auto const tree = weir::rate_tree_options::parse(
        "tree / 60/1min burst 21, /acme 12/1min burst 6 most 20/1min burst 18, "
        "/acme/ann 2/1min burst 2, /acme/* most 30/1min burst 10, /acme/bob most 1/10s burst 10, "
        "/* most 90/1min burst 12, /*/* most 120/1min burst 70");
    weir::policy::tree_plan const plan(tree);
    auto const quotas = quotas_of(tree);
    BOOST_TEST(quotas.size() == plan.kinds.size());
    auto const told_of = [&](std::string const& path) {
        auto const at = std::ranges::find(plan.kinds, path, &weir::policy::tree_kind::path);
        auto const names = proxy::names_of_parts("a", 1);
        policy const one{.names = names,
                         .quotas = {quotas.at(static_cast<std::size_t>(at - plan.kinds.begin()))}};
        return told(one);
    };
    BOOST_TEST(told_of("/acme/ann") == "\"a\";q=20;w=60");  // of /acme; it has no most
    BOOST_TEST(told_of("/acme/*") == "\"a\";q=20;w=60");    // of /acme
    BOOST_TEST(told_of("/acme/bob") == "\"a\";q=10;w=100");
    BOOST_TEST(told_of("/*/*") == "\"a\";q=60;w=60");  // of the root
}

// The window has the length of the day, week or month of the wall clock.
BOOST_AUTO_TEST_CASE(of_the_calendar) {
    using std::chrono::sys_days;
    using std::chrono::year;
    static sys_days today;
    auto const told_on = [](std::string const& text, sys_days day) {
        today = day;
        auto made = rule(text);
        std::get<weir::calendar_window_options>(made.options).clock = []() noexcept {
            return weir::wall_time(today + 12h);
        };
        return told(proxy::rule_quotas("a", made).now());
    };
    auto const zone = std::string(support::europe().name());
    BOOST_TEST(told_on("9/day", year(2024) / 3 / 31) == R"("a";q=9;w=86400)");
    BOOST_TEST(told_on("9/day zone " + zone, year(2024) / 3 / 30) == R"("a";q=9;w=86400)");
    BOOST_TEST(told_on("9/day zone " + zone, year(2024) / 3 / 31) == R"("a";q=9;w=82800)");
    BOOST_TEST(told_on("9/day zone " + zone, year(2024) / 10 / 27) == R"("a";q=9;w=90000)");
    BOOST_TEST(told_on("9/week", year(2024) / 3 / 31) == R"("a";q=9;w=604800)");
    BOOST_TEST(told_on("9/month", year(2024) / 2 / 5) == R"("a";q=9;w=2505600)");

    proxy::rule_quotas a("a", rule("9/day & 7 seats"));
    BOOST_TEST(a.now().part_after(1s) == 0u);
    a.change(rule("8/week & 7 seats"));
    BOOST_TEST(told(a.now()) == R"("a";q=8;w=604800, "a#2";q=7;qu="concurrent-requests")");
}

BOOST_AUTO_TEST_CASE(have_whole_seconds_rounded_up) {
    BOOST_TEST(told("1/1ms") == R"("a";q=1;w=1)");
    BOOST_TEST(told("10/1500ms") == R"("a";q=10;w=2)");
}

// A client that keeps to the quota must not be rejected.
BOOST_AUTO_TEST_CASE(of_a_burst_last_until_it_is_refilled) {
    BOOST_TEST(told("10/1s burst 10") == R"("a";q=10;w=1)");
    BOOST_TEST(told("10/1s burst 25") == R"("a";q=25;w=3)");
    BOOST_TEST(told("10/1s burst 5") == R"("a";q=10;w=1)");
    BOOST_TEST(told("0/1s burst 5") == R"("a";q=5)");
}

BOOST_AUTO_TEST_CASE(of_several_parts_have_a_smallest_one) {
    BOOST_TEST(proxy::rule_quotas("a", rule("100/1min & 7 seats")).now().max() == 7);
    BOOST_TEST(proxy::rule_quotas("a", rule("9/1min & 10/1s")).now().smallest() == 0u);
}

// A part with a window cannot wait for longer than its window, and the time of other parts is unknown.
BOOST_AUTO_TEST_CASE(of_several_parts_have_one_that_decides_the_time) {
    auto const part = [](std::string const& text, std::optional<std::chrono::seconds> wait) {
        return proxy::rule_quotas("a", rule(text)).now().part_after(wait);
    };
    for (auto const& [wait, wanted] : {std::pair(0s, 1u), {1s, 1u}, {2s, 0u}, {60s, 0u}, {61s, 0u}})
        BOOST_TEST_CONTEXT(wait.count()) {
            BOOST_TEST(part("100/1min & 10/1s", wait) == wanted);
            BOOST_TEST(part("100/1min & 10/1s & 5 seats", wait) == wanted);
        }
    BOOST_TEST(part("100/1min & 10/1s & 5 seats", std::nullopt) == 2u);
    BOOST_TEST(part("100/1min & 10/1s", std::nullopt) == 0u);
    BOOST_TEST(part("20/1min & 10/1min sliding", 5s) == 1u);  // of equal windows the smaller quota
    BOOST_TEST(part("7 seats & 5 seats", 5s) == 1u);
    BOOST_TEST(part("9/1s & 10/day", 2s) == 1u);
}

BOOST_AUTO_TEST_CASE(have_at_most_15_digits) {
    BOOST_TEST(quotas_of(rule("1000000000000000/1s")).front().max == 999'999'999'999'999);
    BOOST_TEST(quotas_of(rule("1000000000000000 seats")).front().max == 999'999'999'999'999);
}

BOOST_AUTO_TEST_CASE(names_are_strings_of_structured_fields) {
    BOOST_TEST(proxy::quoted("per client") == "\"per client\"");
    BOOST_TEST(proxy::quoted(R"(a"b\c)") == R"("a\"b\\c")");
    BOOST_TEST(proxy::quoted("caf\xc3\xa9 5%\n\x7f") == "\"caf%c3%a9 5%25%0a%7f\"");
}

BOOST_AUTO_TEST_CASE(change) {
    proxy::rule_quotas a("a", rule("10/1s & 7 seats"));
    auto const before = a.now();
    a.change(rule("20/2s & 9 seats"));
    BOOST_TEST(told(before) == R"("a";q=10;w=1, "a#2";q=7;qu="concurrent-requests")");
    BOOST_TEST(told(a.now()) == R"("a";q=20;w=2, "a#2";q=9;qu="concurrent-requests")");
}

// A controller that sets another rule each second must not fill the memory in a year.
BOOST_AUTO_TEST_CASE(change_without_growing) {
    proxy::rule_quotas a("a", rule("1/1s"));
    auto const before = in_use();
    for (weir::amount n = 1; n <= 1'000'000; ++n)
        a.change({weir::token_bucket_options{.rate = {n, 1s}}});
    auto const after = in_use();
    BOOST_TEST(a.now().quotas.front().max == 1'000'000);
    BOOST_TEST(after < before + 10'000);
}

BOOST_AUTO_TEST_CASE(change_as_a_whole_while_they_are_read) {
    auto const of = [](weir::amount n) {
        auto const part = weir::sliding_log_options{.limit = n, .window = std::chrono::seconds(n)};
        return weir::limiter_config{weir::all_options{{{part}, {part}}}};
    };
    proxy::rule_quotas a("a", of(1));
    std::atomic<bool> done = false;
    std::atomic<std::uint64_t> torn = 0, read = 0;
    std::vector<std::thread> readers;
    for (int i = 0; i != 2; ++i)
        readers.emplace_back([&] {
            while (!done) {
                auto const found = a.now();
                auto const n = found.quotas[0].max;
                for (auto const& q : found.quotas)
                    torn += q.max != n || q.seconds != n;
                ++read;
            }
        });
    // Until the readers have read often enough, however busy the machine is.
    for (weir::amount n = 0; read < 100'000 || n < 100'000; ++n)
        a.change(of(n % 1'000 + 1));
    done = true;
    for (auto& r : readers)
        r.join();
    BOOST_TEST(torn == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
