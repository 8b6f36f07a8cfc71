#include <weir/policy/call_marks.hpp>

#include "support/printing.hpp"
#include "support/random.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

using namespace std::chrono_literals;
using support::random_source;
using weir::amount;
using weir::duration;
using weir::time_point;
using weir::policy::call_marks;

BOOST_AUTO_TEST_SUITE(marks_of_calls)

namespace {

constexpr time_point noon{12h};

// The definition: each permit counts the marks since its grant. It is of a long call from the second one on. A mark
// follows when each seat in use, except the seats of long calls, was released 16 times since the last mark, and at least
// 50 permits were released.
class plain_list {
public:
    struct permit {
        time_point stamp;
        amount count;
        int marks = 0;
    };

    void grant(time_point stamp, amount n) { permits.push_back({stamp, n}); }
    bool leave(std::size_t i, amount n) {
        bool const is_long = permits[i].marks >= 2;
        auto const before = in_use();
        remove(i, n);
        released_ += n;
        if (released_ >= 50 && released_ >= 16 * std::max<amount>(before - long_calls(), 1)) {
            released_ = 0;
            for (auto& p : permits)
                ++p.marks;
        }
        return is_long;
    }
    void remove(std::size_t i, amount n) {
        permits[i].count -= n;
        if (permits[i].count == 0)
            permits.erase(permits.begin() + static_cast<std::ptrdiff_t>(i));
    }
    void merge(std::size_t into, std::size_t from) {
        permits[into].count += permits[from].count;
        permits.erase(permits.begin() + static_cast<std::ptrdiff_t>(from));
    }
    [[nodiscard]] amount long_calls() const {
        amount n = 0;
        for (auto const& p : permits)
            n += p.marks >= 2 ? p.count : 0;
        return n;
    }
    [[nodiscard]] amount in_use() const {
        amount n = 0;
        for (auto const& p : permits)
            n += p.count;
        return n;
    }

    std::vector<permit> permits;

private:
    amount released_ = 0;
};

// Grants and releases `n` short calls, beside `others` permits in use.
void pass(call_marks& m, time_point now, int n, amount others) {
    for (; n != 0; --n)
        m.leave(m.stamp(now), 1, others + 1, now);
}

}  // namespace

BOOST_AUTO_TEST_CASE(make_a_call_long_after_16_to_32_releases_of_each_seat) {
    call_marks m;
    auto const stream = m.stamp(noon);
    pass(m, noon + 1s, 63, 3);  // the stream, and two more
    BOOST_TEST((m.last_mark() == time_point::min()));
    pass(m, noon + 2s, 1, 3);
    BOOST_TEST((m.last_mark() > noon + 2s));
    BOOST_TEST(m.long_calls() == 0);
    pass(m, noon + 3s, 63, 3);
    BOOST_TEST(m.long_calls() == 0);
    pass(m, noon + 4s, 1, 3);
    BOOST_TEST(m.long_calls() == 3);
    BOOST_TEST(m.leave(stream, 1, 3, noon + 5s));
    BOOST_TEST(m.long_calls() == 2);
}

BOOST_AUTO_TEST_CASE(need_50_releases) {
    call_marks m;
    pass(m, noon, 49, 0);
    BOOST_TEST((m.last_mark() == time_point::min()));
    pass(m, noon, 1, 0);
    BOOST_TEST((m.last_mark() > noon));
}

BOOST_AUTO_TEST_CASE(follow_each_other_within_an_instant) {
    call_marks m;
    auto const first = m.stamp(noon);
    pass(m, noon, 50, 1);
    auto const second = m.stamp(noon);
    BOOST_TEST((second > first));
    pass(m, noon, 50, 2);
    BOOST_TEST(m.long_calls() == 1);
    BOOST_TEST(m.leave(first, 1, 2, noon));
    BOOST_TEST(!m.leave(second, 1, 1, noon));
}

BOOST_AUTO_TEST_CASE(can_make_calls_long_that_others_have_overtaken) {
    call_marks m;
    auto const streams = m.stamp(noon);
    auto const trial = m.stamp(noon + 15s);
    m.make_long(noon, 3);
    BOOST_TEST(m.long_calls() == 3);
    BOOST_TEST(!m.leave(trial, 1, 4, noon + 16s));
    BOOST_TEST(m.leave(streams, 1, 3, noon + 1h));
    BOOST_TEST(m.long_calls() == 2);
}

BOOST_AUTO_TEST_CASE(count_permits_without_a_record_in_no_generation) {
    call_marks m;
    pass(m, noon, 64, 3);
    pass(m, noon, 64, 3);
    BOOST_TEST(m.long_calls() == 3);
    m.leave_unknown(2, 3);
    BOOST_TEST(m.long_calls() == 1);
}

BOOST_AUTO_TEST_CASE(count_like_a_list_of_grants) {
    support::for_each_seed(1, 2'000, [](random_source& random) {
        call_marks m;
        plain_list plain;
        auto now = noon;
        auto const most = random.between(1, 12);
        bool const stands = random.one_in(4);  // all times are equal
        bool good = true;
        for (int step = 0; step != 3'000; ++step) {
            if (!stands && random.one_in(3))
                now += duration(random.of_any_size(1'000'000));
            auto const in_use = plain.in_use();
            if (plain.permits.empty() || (in_use < most && random.one_in(2))) {
                auto const n = random.between(1, 3);
                plain.grant(m.stamp(now), n);
                continue;
            }
            auto const i = random.index_in(plain.permits);
            auto const [stamp, count, marks] = plain.permits[i];
            auto const part = random.between(1, count);
            if (random.one_in(20)) {
                m.refund(stamp, part, in_use);
                plain.remove(i, part);
            } else if (plain.permits.size() > 1 && random.one_in(20)) {
                auto const into = i == 0 ? 1 : i - 1;
                m.remove(stamp, count);
                m.add(plain.permits[into].stamp, count);
                plain.merge(into, i);
            } else if (i >= 2 || random.one_in(50)) {  // the first ones are held for long
                good = good && m.leave(stamp, part, in_use, now) == plain.leave(i, part);
            }
            good = good && m.long_calls() == plain.long_calls();
        }
        BOOST_TEST_REQUIRE(good);
    });
}

BOOST_AUTO_TEST_SUITE_END()
