#include <weir/policy/all.hpp>
#include <weir/policy/any.hpp>
#include <weir/policy/fixed_window.hpp>
#include <weir/policy/leaky_bucket.hpp>
#include <weir/policy/policy.hpp>
#include <weir/policy/seats.hpp>
#include <weir/policy/sliding_log.hpp>
#include <weir/policy/sliding_window.hpp>
#include <weir/policy/smooth_bursty.hpp>
#include <weir/policy/smooth_warming_up.hpp>
#include <weir/policy/token_bucket.hpp>

#include "support/renew.hpp"

#include <boost/mp11/algorithm.hpp>
#include <boost/mp11/list.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <concepts>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <utility>

using namespace std::chrono_literals;
using support::begun;
using support::renew;
using weir::amount;
using weir::limiting_policy;
using weir::ticket;
using weir::time_point;
using weir::watchful_policy;

BOOST_AUTO_TEST_SUITE(any_policy)

namespace {

struct no_options {};

// The minimal policy: it grants every request.
struct open_door {
    using options_type = no_options;

    constexpr explicit open_door(no_options const&) {}
    [[nodiscard]] no_options options() const { return {}; }
    void begin(time_point) noexcept {}
    void take_over(open_door&, time_point) noexcept {}
    [[nodiscard]] amount capacity() const noexcept { return weir::max_amount; }
    [[nodiscard]] bool timed() const noexcept { return false; }
    [[nodiscard]] amount remaining(time_point) const noexcept { return weir::max_amount; }
    [[nodiscard]] time_point ready_at(amount, amount, time_point now) const noexcept { return now; }
    ticket take(amount, time_point) { return 0; }
    bool leave(amount, ticket) noexcept { return false; }
    bool refund(amount, ticket, time_point) noexcept { return false; }
    ticket merge(ticket a, ticket, amount) noexcept { return a; }
};

struct watched_door : open_door {
    using open_door::open_door;
    [[nodiscard]] time_point next_overdue() const noexcept { return weir::never; }
    std::optional<weir::overdue> pop_overdue(time_point) noexcept { return std::nullopt; }
};

// Each of these replaces one member by a wrong one.
struct throws_when_moved : open_door {
    using open_door::open_door;
    throws_when_moved(throws_when_moved&& other) noexcept(false) : open_door(other) {}
    throws_when_moved& operator=(throws_when_moved&&) = default;
};
struct has_other_options : open_door {
    using open_door::open_door;
    using options_type = std::chrono::seconds;
};
struct begins_with_a_throw : open_door {
    using open_door::open_door;
    void begin(time_point) {}
};
struct takes_nothing_over : open_door {
    using open_door::open_door;
    void take_over() {}
};
struct leaves_with_a_throw : open_door {
    using open_door::open_door;
    bool leave(amount, ticket) { return false; }
};
struct leaves_without_a_word : open_door {
    using open_door::open_door;
    void leave(amount, ticket) noexcept {}
};
struct leaves_at_a_time : open_door {
    using open_door::open_door;
    bool leave(amount, ticket, time_point) noexcept { return false; }
};
struct catches_up_with_what_was_missed : open_door {
    using open_door::open_door;
    [[nodiscard]] constexpr bool catches_up() const noexcept { return true; }
};
struct changes_when_asked : open_door {
    using open_door::open_door;
    time_point ready_at(amount, amount, time_point now) noexcept { return now; }
};
struct answers_with_a_duration : open_door {
    using open_door::open_door;
    [[nodiscard]] weir::duration ready_at(amount, amount, time_point) const noexcept { return {}; }
};
struct gives_no_ticket : open_door {
    using open_door::open_door;
    void take(amount, time_point) {}
};
struct refunds_nothing : open_door {
    using open_door::open_door;
    void refund() noexcept {}
};
struct merges_with_a_throw : open_door {
    using open_door::open_door;
    ticket merge(ticket a, ticket, amount) { return a; }
};
struct watches_with_a_throw : watched_door {
    using watched_door::watched_door;
    std::optional<weir::overdue> pop_overdue(time_point) { return std::nullopt; }
};

static_assert(limiting_policy<open_door>);
static_assert(!watchful_policy<open_door>);
static_assert(watchful_policy<watched_door>);
static_assert(limiting_policy<watches_with_a_throw> && !watchful_policy<watches_with_a_throw>);

static_assert(limiting_policy<leaves_at_a_time>);
static_assert(!weir::catches_up(open_door(no_options())));
static_assert(weir::catches_up(catches_up_with_what_was_missed(no_options())));

static_assert(!limiting_policy<throws_when_moved>);
static_assert(!limiting_policy<has_other_options>);
static_assert(!limiting_policy<begins_with_a_throw>);
static_assert(!limiting_policy<takes_nothing_over>);
static_assert(!limiting_policy<leaves_with_a_throw>);
static_assert(!limiting_policy<leaves_without_a_word>);
static_assert(!limiting_policy<changes_when_asked>);
static_assert(!limiting_policy<answers_with_a_duration>);
static_assert(!limiting_policy<gives_no_ticket>);
static_assert(!limiting_policy<refunds_nothing>);
static_assert(!limiting_policy<merges_with_a_throw>);
static_assert(!limiting_policy<int>);

// An `any` with this policy inside.
template <class Policy>
struct any_of : weir::policy::any {
    using any::any;
};

using two_rules = weir::policy::all<weir::policy::sliding_log, weir::policy::token_bucket>;

// Each policy with room for three permits, one by one.
template <class Policy>
struct of_three;
template <class Policy>
struct of_three<any_of<Policy>> : of_three<Policy> {};
template <>
struct of_three<weir::policy::seats> {
    static constexpr weir::seats_options options{.seats = 3};
    static constexpr weir::seats_options nonsense{.seats = 0};
};
template <>
struct of_three<weir::policy::sliding_log> {
    static constexpr weir::sliding_log_options options{.limit = 3, .window = 1h};
    static constexpr weir::sliding_log_options nonsense{.limit = 0};
};

template <>
struct of_three<weir::policy::sliding_window> {
    static constexpr weir::sliding_window_options options{.limit = 3, .window = 1h};
    static constexpr weir::sliding_window_options nonsense{.limit = 0};
};
template <>
struct of_three<weir::policy::fixed_window> {
    static constexpr weir::fixed_window_options options{.limit = 3, .window = 1h};
    static constexpr weir::fixed_window_options nonsense{.limit = 0};
};
template <>
struct of_three<weir::policy::token_bucket> {
    static inline weir::token_bucket_options const options{.rate = {3, 1h}, .burst = 3};
    static inline weir::token_bucket_options const nonsense{.burst = 0};
};
template <>
struct of_three<weir::policy::leaky_bucket> {
    static inline weir::leaky_bucket_options const options{.rate = {3, 1h}, .capacity = 3};
    static inline weir::leaky_bucket_options const nonsense{.capacity = 0};
};
template <>
struct of_three<weir::policy::smooth_bursty> {  // two are saved; the next request pays the third
    static inline weir::smooth_bursty_options const options{
        .rate = {3, 1h}, .max_burst = 40min, .initial = weir::forever};
    static inline weir::smooth_bursty_options const nonsense{.rate = {0, 1h}};
};

template <>
struct of_three<two_rules> {
    static inline std::tuple<weir::sliding_log_options, weir::token_bucket_options> const options{
        {.limit = 3, .window = 1h}, {.rate = {3, 1h}, .burst = 4}};
    static inline std::tuple<weir::sliding_log_options, weir::token_bucket_options> const nonsense{
        {.limit = 3, .window = 1h}, {.burst = 0}};
};

// The most that one request can be granted: three, unless the policy lends.
template <class Policy>
constexpr amount capacity_of = 3;
template <>
constexpr amount capacity_of<weir::policy::smooth_bursty> = weir::max_amount;
template <class Policy>
constexpr amount capacity_of<any_of<Policy>> = capacity_of<Policy>;
template <class Policy>
constexpr bool lends = capacity_of<Policy> > 3;

template <class Policy>
constexpr bool is_bucket = std::same_as<Policy, weir::policy::token_bucket> ||
                           std::same_as<Policy, weir::policy::leaky_bucket>;
template <class Policy>
constexpr bool is_bucket<any_of<Policy>> = is_bucket<Policy>;

using rules = boost::mp11::mp_list<weir::policy::seats, weir::policy::sliding_log,
                                   weir::policy::sliding_window, weir::policy::fixed_window,
                                   weir::policy::token_bucket, weir::policy::leaky_bucket,
                                   weir::policy::smooth_bursty>;
using policies = boost::mp11::mp_append<rules, boost::mp11::mp_transform<any_of, rules>,
                                        boost::mp11::mp_list<two_rules>>;

template <class Policy>
consteval bool is_proper() {
    using options = typename Policy::options_type;
    static_assert(limiting_policy<Policy>);
    static_assert(watchful_policy<Policy> == (std::same_as<Policy, weir::policy::seats> ||
                                              std::derived_from<Policy, weir::policy::any>));
    // Options can be written in place as an argument of the awaited call. g++ 12 destroys a temporary aggregate there
    // twice, which must do no harm.
    static_assert(std::is_trivially_destructible_v<options> || !std::is_aggregate_v<options>);
    static_assert(std::is_default_constructible_v<options>);
    return true;
}
template <class... Policies>
consteval bool are_proper(boost::mp11::mp_list<Policies...>) {
    return (is_proper<Policies>() && ...);
}
static_assert(are_proper(policies()));
static_assert(is_proper<weir::policy::smooth_warming_up>());  // never has room for three
static_assert(is_proper<weir::policy::any>());

constexpr time_point noon{12h};

template <class Policy>
bool fits(Policy const& policy, amount n, time_point now) {
    return policy.ready_at(n, 0, now) <= now;
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(grants_all_that_fits_at_first_and_no_more, Policy, policies) {
    auto policy = begun<Policy>(of_three<Policy>::options, noon);
    BOOST_TEST(policy.capacity() == capacity_of<Policy>);
    BOOST_TEST(policy.remaining(noon) == 3);
    BOOST_TEST(fits(policy, 3, noon));
    policy.take(3, noon);
    BOOST_TEST(policy.remaining(noon) == 0);
    BOOST_TEST(!fits(policy, 1, noon));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(is_unchanged_by_const_members, Policy, policies) {
    auto policy = begun<Policy>(of_three<Policy>::options, noon);
    policy.take(2, noon);
    for (int i = 0; i != 100; ++i) {
        BOOST_TEST(fits(policy, 2, noon) == lends<Policy>);
        BOOST_TEST(fits(policy, 1, noon));
        BOOST_TEST(policy.remaining(noon) == 1);
    }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(undoes_a_refunded_grant, Policy, policies) {
    auto policy = begun<Policy>(of_three<Policy>::options, noon);
    auto const t = policy.take(3, noon);
    BOOST_TEST(policy.refund(2, t, noon));
    BOOST_TEST(policy.remaining(noon) == 2);
    BOOST_TEST(policy.refund(1, t, noon));
    BOOST_TEST(policy.remaining(noon) == 3);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(goes_into_debt_on_take, Policy, policies) {
    auto policy = begun<Policy>(of_three<Policy>::options, noon);
    BOOST_TEST(weir::debt_of(policy, noon) == 0);
    auto const t = policy.take(5, noon);
    BOOST_TEST(policy.remaining(noon) == 0);
    // A policy that lends has saved two of the three, and would have lent the third.
    BOOST_TEST(weir::debt_of(policy, noon) == (lends<Policy> ? 3 : 2));
    policy.refund(2, t, noon);
    BOOST_TEST(weir::debt_of(policy, noon) == (lends<Policy> ? 1 : 0));
    BOOST_TEST(!fits(policy, 1, noon));
    policy.refund(1, t, noon);
    BOOST_TEST(weir::debt_of(policy, noon) == 0);
    BOOST_TEST(fits(policy, 1, noon));
    BOOST_TEST(fits(policy, 2, noon) == lends<Policy>);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(counts_requests_ahead, Policy, policies) {
    auto policy = begun<Policy>(of_three<Policy>::options, noon);
    BOOST_TEST((policy.ready_at(1, 2, noon) <= noon));
    BOOST_TEST((policy.ready_at(1, 3, noon) > noon));
    BOOST_TEST((policy.ready_at(3, 1, noon) <= noon) == lends<Policy>);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(continues_after_a_move, Policy, policies) {
    auto policy = begun<Policy>(of_three<Policy>::options, noon);
    auto const t = policy.take(1, noon);
    auto elsewhere = std::move(policy);
    BOOST_TEST(elsewhere.remaining(noon) == 2);
    auto other = begun<Policy>(of_three<Policy>::options, noon);
    std::swap(elsewhere, other);
    BOOST_TEST(elsewhere.remaining(noon) == 3);
    other.refund(1, t, noon);
    BOOST_TEST(other.remaining(noon) == 3);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(keeps_permits_in_use_when_options_change, Policy, policies) {
    auto policy = begun<Policy>(of_three<Policy>::options, noon);
    auto const t = policy.take(3, noon);
    renew(policy, of_three<Policy>::options, noon);
    BOOST_TEST(policy.remaining(noon) == 0);
    BOOST_TEST(policy.refund(2, t, noon));
    BOOST_TEST(policy.remaining(noon) == 2);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(makes_up_for_late_grants_if_it_is_a_bucket, Policy, policies) {
    BOOST_TEST(weir::catches_up(Policy(of_three<Policy>::options)) == is_bucket<Policy>);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(is_unchanged_by_invalid_options, Policy, policies) {
    auto policy = begun<Policy>(of_three<Policy>::options, noon);
    policy.take(2, noon);
    BOOST_CHECK_THROW(renew(policy, of_three<Policy>::nonsense, noon), std::invalid_argument);
    BOOST_TEST(policy.capacity() == capacity_of<Policy>);
    BOOST_TEST(Policy(policy.options()).remaining(noon) == 3);
    BOOST_TEST(policy.remaining(noon) == 1);
    BOOST_CHECK_THROW((void)Policy(of_three<Policy>::nonsense), std::invalid_argument);
}

// A rule and its state, without a policy.
static_assert(sizeof(weir::policy::seats_rule::state_type) == 8);
static_assert(sizeof(weir::policy::token_bucket_rule::state_type) == 16);
static_assert(sizeof(weir::policy::leaky_bucket_rule::state_type) == 16);
static_assert(sizeof(weir::policy::smooth_bursty::state_type) == 32);
static_assert(sizeof(weir::policy::fixed_window_rule::state_type) == 40);

BOOST_AUTO_TEST_CASE_TEMPLATE(can_drop_its_state_when_it_is_like_an_unused_one, Policy, rules) {
    using rule = typename Policy::rule_type;
    static_assert(weir::limiting_rule<rule>);
    rule const r(of_three<Policy>::options);
    auto const unused = r.begin(noon);
    auto s = r.begin(noon);
    BOOST_TEST(r.are_alike(s, unused, noon));
    auto const t = r.take(s, 3, noon);
    BOOST_TEST(!r.are_alike(s, unused, noon));
    BOOST_TEST(!r.are_alike(s, unused, noon + 59min));
    BOOST_TEST(!r.are_alike(unused, s, noon + 59min));
    r.leave(s, 3, t);  // frees some permits; time frees the others
    BOOST_TEST(r.are_alike(s, unused, noon + 1h));
    BOOST_TEST(r.remaining(s, noon + 1h) == 3);
}

// Copies of the state are independent, and a copy that another state takes over continues.
BOOST_AUTO_TEST_CASE_TEMPLATE(shares_its_rule_among_many_states, Policy, rules) {
    using rule = typename Policy::rule_type;
    rule const r(of_three<Policy>::options);
    rule const same(of_three<Policy>::options);
    auto a = r.begin(noon);
    auto b = r.begin(noon);
    r.take(a, 3, noon);
    BOOST_TEST(r.remaining(a, noon) == 0);
    BOOST_TEST(r.remaining(b, noon) == 3);
    auto next = same.begin(noon + 1min);
    same.take_over(next, r, a, noon + 1min);
    BOOST_TEST(same.remaining(next, noon + 1min) == 0);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(merges_permits_into_one, Policy, policies) {
    auto policy = begun<Policy>(of_three<Policy>::options, noon);
    auto const a = policy.take(1, noon);
    auto const b = policy.take(2, noon);
    auto const both = policy.merge(a, b, 2);
    BOOST_TEST(policy.remaining(noon) == 0);
    policy.refund(3, both, noon);
    BOOST_TEST(policy.remaining(noon) == 3);
}

BOOST_AUTO_TEST_SUITE_END()
