#include <weir/amount.hpp>
#include <weir/detail/keyed/states.hpp>
#include <weir/key_hash.hpp>
#include <weir/policy/rule.hpp>
#include <weir/policy/token_bucket.hpp>
#include <weir/time.hpp>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <memory>

// Two changes of the rule of all keys, which overlap.

using namespace std::chrono_literals;
using weir::amount;

namespace {

struct no_room {};
using rule = weir::policy::rule_of_t<weir::policy::token_bucket>;
using states = weir::detail::keyed_states<int, weir::key_hash, rule, no_room>;

// A change that visits one page after the other.
class change {
public:
    change(amount burst, std::uint64_t number)
        : to_{std::make_shared<rule const>(
                  weir::token_bucket_options{.rate = {1, 1h}, .burst = burst, .initial = 0}),
              number} {}

    void go_on(states& all, int pages) {
        for (int i = 0; i != pages && !is_over_; ++i) {
            at_ = all.change_rule(to_, at_, {}, [](no_room&) {});
            is_over_ = at_ == 0;
        }
    }
    [[nodiscard]] bool is_over() const { return is_over_; }

private:
    states::versioned_rule to_;
    std::uint64_t at_ = 0;
    bool is_over_ = false;
};

struct many_keys {
    // Each key has used a permit, so none is forgotten.
    many_keys() {
        all.begin({});
        for (int key = 0; key != 500; ++key) {
            auto const hash = all.hash_of(states::handle::make(key, 0));
            auto const where = all.insert(key, hash, {});
            static_cast<void>(where.rule().take(where.own_state(), 1, {}));
        }
    }

    // The number of hashes, of 256, whose rule has this burst. An unused key has no permits yet.
    int with_burst(amount burst) {
        int found = 0;
        for (std::uint64_t i = 0; i != 256; ++i) {
            auto const hash = i << 56;
            auto const& r = all.rule_at(hash);
            BOOST_TEST_REQUIRE(r.remaining(all.unused_at(hash), {}) == 0);
            found += r.capacity() == burst;
        }
        return found;
    }

    states all{std::make_shared<rule const>(
                   weir::token_bucket_options{.rate = {1, 1h}, .burst = 9, .initial = 0}),
               std::make_shared<weir::detail::keyed_bounds<weir::key_hash>>(
                   weir::key_hash(), weir::hash_seed{.a = 1, .b = 2}, 1'000)};
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(a_change_is_overtaken_by_a_newer_one, many_keys) {
    change older(5, 1);
    change newer(3, 2);
    older.go_on(all, 4);
    BOOST_TEST(with_burst(5) > 0);
    newer.go_on(all, 2);
    BOOST_TEST(with_burst(3) > 0);
    BOOST_TEST(with_burst(5) > 0);
    BOOST_TEST(with_burst(9) > 0);

    // From now on, both apply the newer rule.
    older.go_on(all, 4);
    BOOST_TEST(with_burst(9) > 0);
    auto const before = with_burst(5);
    older.go_on(all, 1'000);
    BOOST_TEST(older.is_over());
    BOOST_TEST(!newer.is_over());
    BOOST_TEST(with_burst(5) == before);
    BOOST_TEST(with_burst(9) == 0);
    newer.go_on(all, 1'000);
    BOOST_TEST(with_burst(3) == 256);
}

BOOST_FIXTURE_TEST_CASE(an_older_change_that_begins_later_has_no_effect, many_keys) {
    change older(5, 1);
    change newer(3, 2);
    newer.go_on(all, 4);
    older.go_on(all, 2);
    BOOST_TEST(with_burst(5) == 0);
    newer.go_on(all, 1'000);
    older.go_on(all, 1'000);
    BOOST_TEST(with_burst(3) == 256);
}
