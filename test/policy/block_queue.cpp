#include <weir/policy/block_queue.hpp>

#include "support/allocations.hpp"
#include "support/random.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <new>
#include <ranges>
#include <utility>
#include <vector>

using support::random_source;

namespace {

struct value {
    std::int64_t a;
    std::int64_t b;
    bool operator==(value const&) const = default;
};
using queue = weir::policy::block_queue<value>;

constexpr auto block = static_cast<std::int64_t>(queue::block_size);

bool are_equal(queue const& q, std::deque<value> const& expected) {
    return q.size() == expected.size() &&
           std::ranges::all_of(std::views::iota(std::size_t{0}, q.size()), [&](std::size_t i) {
               return q[i] == expected[i];
           });
}

std::ptrdiff_t bytes_of(queue const& q) {
    auto const before = support::bytes_in_use.load();
    queue const copy(q);
    return support::bytes_in_use - before;
}

}  // namespace

BOOST_AUTO_TEST_CASE(is_a_queue_with_random_access) {
    support::for_each_seed(1, 300, [](random_source& random) {
        queue q = random.one_in(2) ? queue()
                                   : queue(static_cast<std::size_t>(random.between(0, 2 * block)));
        std::deque<value> expected;
        auto const many = random.one_of({std::int64_t{3}, block / 2, block + 1, 5 * block});
        for (int step = 0; step != 200; ++step) {
            auto const size = static_cast<std::int64_t>(expected.size());
            switch (random.between(0, 5)) {
                case 0:
                case 1:
                    for (auto n = random.between(0, many); n != 0; --n) {
                        value const next{step, n};
                        BOOST_REQUIRE(q.try_push_back(next));
                        expected.push_back(next);
                    }
                    break;
                case 2:
                case 3: {
                    auto const n = std::min(random.between(0, many), size);
                    q.pop_front(static_cast<std::size_t>(n));
                    expected.erase(expected.begin(), expected.begin() + n);
                    break;
                }
                case 4: {
                    auto const n = static_cast<std::size_t>(
                        std::max<std::int64_t>(size - random.between(0, many), 0));
                    q.truncate(n);
                    expected.resize(n);
                    break;
                }
                default: {
                    queue copy(q);
                    BOOST_REQUIRE(are_equal(copy, expected));
                    q = random.one_in(2) ? std::move(copy) : copy;
                }
            }
            BOOST_REQUIRE(are_equal(q, expected));
            if (!expected.empty())
                BOOST_REQUIRE(q.back() == expected.back());
        }
    });
}

BOOST_AUTO_TEST_CASE(changes_nothing_if_memory_is_lacking) {
    support::for_each_seed(1, 300, [](random_source& random) {
        queue q(8);
        std::deque<value> expected;
        for (int step = 0; step != 200; ++step) {
            auto const size = static_cast<std::int64_t>(expected.size());
            auto const n = random.between(1, 2 * block);
            auto const what = random.between(0, 2);
            std::vector<value> pushed;
            pushed.reserve(static_cast<std::size_t>(n));
            support::with_failing_allocation(static_cast<int>(random.between(0, 3)), [&] {
                switch (what) {
                    case 0:
                        for (auto i = n; i != 0; --i)
                            if (q.try_push_back({step, i}))
                                pushed.push_back({step, i});
                        break;
                    case 1:
                        q.pop_front(static_cast<std::size_t>(std::min(n, size)));
                        break;
                    default:
                        try {
                            queue const copy(q);
                        } catch (std::bad_alloc const&) {}
                }
            });
            if (what == 1)
                expected.erase(expected.begin(), expected.begin() + std::min(n, size));
            expected.insert(expected.end(), pushed.begin(), pushed.end());
            BOOST_REQUIRE(are_equal(q, expected));
        }
        q.pop_front(q.size());
        support::with_failing_allocation(0, [&] { BOOST_TEST(q.try_push_back({1, 1})); });
    });
}

BOOST_AUTO_TEST_CASE(its_memory_follows_its_size) {
    auto const before = support::bytes_in_use.load();
    auto const bytes = [&] { return support::bytes_in_use - before; };
    constexpr auto of_value = static_cast<std::ptrdiff_t>(sizeof(value));
    constexpr auto of_block = block * of_value;
    // A block is 256 values, and has an address of 8 bytes in a ring that is at least a quarter full.
    auto const most = [&](std::int64_t n) {
        return n <= block ? std::max<std::ptrdiff_t>(2 * n, 8) * of_value + 100
                          : n * of_value + 2 * of_block + (n / block + 4) * (4 * 8 + 16);
    };
    {
        queue q(8);
        for (std::int64_t n = 1; n <= 40 * block; ++n) {
            BOOST_REQUIRE(q.try_push_back({n, n}));
            BOOST_REQUIRE(bytes() <= most(n));
        }
        BOOST_TEST(bytes_of(q) <= most(40 * block));
        // The ring of addresses is as large as it was.
        for (std::int64_t n = 40 * block; n != 0; --n) {
            q.pop_front(1);
            BOOST_REQUIRE(bytes() <= most(std::max(n, block + 1)) + 64 * 8);
        }
        BOOST_TEST(bytes() <= 8 * of_value + 100);
    }
    BOOST_TEST(bytes() == 0);
}
