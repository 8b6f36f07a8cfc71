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

#include <boost/mp11/algorithm.hpp>
#include <boost/mp11/list.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <concepts>
#include <optional>
#include <stdexcept>
#include <type_traits>

using namespace std::chrono_literals;
using weir::amount;
using weir::limiting_policy;
using weir::ticket;
using weir::time_point;
using weir::watchful_policy;

namespace {

struct no_options {};

// The least that is a policy: it grants whatever is asked for.
struct open_door {
    using options_type = no_options;

    explicit open_door(no_options const&) {}
    [[nodiscard]] no_options options() const { return {}; }
    void configure(no_options const&, time_point) {}
    [[nodiscard]] amount capacity() const noexcept { return weir::max_amount; }
    [[nodiscard]] bool timed() const noexcept { return false; }
    [[nodiscard]] amount remaining(time_point) const noexcept { return weir::max_amount; }
    [[nodiscard]] time_point ready_at(amount, amount, time_point now) const noexcept { return now; }
    ticket take(amount, time_point) { return 0; }
    bool leave(amount, ticket, time_point) noexcept { return false; }
    bool refund(amount, ticket, time_point) noexcept { return false; }
    ticket merge(ticket a, ticket, amount) noexcept { return a; }
};

struct watched_door : open_door {
    using open_door::open_door;
    [[nodiscard]] time_point next_overdue() const noexcept { return weir::never; }
    std::optional<weir::overdue> pop_overdue(time_point) noexcept { return std::nullopt; }
};

// What each of these hides is not as it should be.
struct cannot_be_copied : open_door {
    using open_door::open_door;
    cannot_be_copied(cannot_be_copied&&) = default;
    cannot_be_copied& operator=(cannot_be_copied&&) = default;
};
struct has_other_options : open_door {
    using open_door::open_door;
    using options_type = std::chrono::seconds;
};
struct cannot_be_configured : open_door {
    using open_door::open_door;
    void configure(no_options const&) {}
};
struct leaves_with_a_throw : open_door {
    using open_door::open_door;
    bool leave(amount, ticket, time_point) { return false; }
};
struct leaves_without_a_word : open_door {
    using open_door::open_door;
    void leave(amount, ticket, time_point) noexcept {}
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

static_assert(!limiting_policy<cannot_be_copied>);
static_assert(!limiting_policy<has_other_options>);
static_assert(!limiting_policy<cannot_be_configured>);
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

// Each policy with room for three, one by one.
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
struct of_three<weir::policy::smooth_bursty> {  // two are saved, and the third is paid by the next
    static inline weir::smooth_bursty_options const options{
        .rate = {3, 1h}, .max_burst = 40min, .initial = weir::forever};
    static inline weir::smooth_bursty_options const nonsense{.rate = {0, 1h}};
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

using rules = boost::mp11::mp_list<weir::policy::seats, weir::policy::sliding_log,
                                   weir::policy::sliding_window, weir::policy::fixed_window,
                                   weir::policy::token_bucket, weir::policy::leaky_bucket,
                                   weir::policy::smooth_bursty>;
using policies = boost::mp11::mp_append<rules, boost::mp11::mp_transform<any_of, rules>>;

template <class Policy>
consteval bool is_proper() {
    using options = typename Policy::options_type;
    static_assert(limiting_policy<Policy>);
    static_assert(watchful_policy<Policy> == (std::same_as<Policy, weir::policy::seats> ||
                                              std::derived_from<Policy, weir::policy::any>));
    // Moved under the limiter's lock.
    static_assert(std::is_nothrow_move_constructible_v<Policy>);
    // Options can be written in place as the argument of what is awaited: g++ 12 destroys a temporary
    // there twice, which must do no harm.
    static_assert(std::is_trivially_destructible_v<options>);
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

BOOST_AUTO_TEST_SUITE(any_policy)

BOOST_AUTO_TEST_CASE_TEMPLATE(grants_all_that_there_is_room_for_at_first_and_no_more, Policy,
                              policies) {
    Policy policy(of_three<Policy>::options);
    BOOST_TEST(policy.capacity() == capacity_of<Policy>);
    BOOST_TEST(policy.remaining(noon) == 3);
    BOOST_TEST(fits(policy, 3, noon));
    policy.take(3, noon);
    BOOST_TEST(policy.remaining(noon) == 0);
    BOOST_TEST(!fits(policy, 1, noon));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(is_not_changed_by_being_asked, Policy, policies) {
    Policy policy(of_three<Policy>::options);
    policy.take(2, noon);
    for (int i = 0; i != 100; ++i) {
        BOOST_TEST(fits(policy, 2, noon) == lends<Policy>);
        BOOST_TEST(fits(policy, 1, noon));
        BOOST_TEST(policy.remaining(noon) == 1);
    }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(undoes_a_grant_that_is_refunded, Policy, policies) {
    Policy policy(of_three<Policy>::options);
    auto const t = policy.take(3, noon);
    BOOST_TEST(policy.refund(2, t, noon));
    BOOST_TEST(policy.remaining(noon) == 2);
    BOOST_TEST(policy.refund(1, t, noon));
    BOOST_TEST(policy.remaining(noon) == 3);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(goes_into_debt_when_told_to, Policy, policies) {
    Policy policy(of_three<Policy>::options);
    auto const t = policy.take(5, noon);
    BOOST_TEST(policy.remaining(noon) == 0);
    policy.refund(2, t, noon);
    BOOST_TEST(!fits(policy, 1, noon));
    policy.refund(1, t, noon);
    BOOST_TEST(fits(policy, 1, noon));
    BOOST_TEST(fits(policy, 2, noon) == lends<Policy>);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(counts_those_ahead, Policy, policies) {
    Policy policy(of_three<Policy>::options);
    BOOST_TEST((policy.ready_at(1, 2, noon) <= noon));
    BOOST_TEST((policy.ready_at(1, 3, noon) > noon));
    BOOST_TEST((policy.ready_at(3, 1, noon) <= noon) == lends<Policy>);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(goes_its_own_way_once_it_is_a_copy, Policy, policies) {
    Policy policy(of_three<Policy>::options);
    policy.take(1, noon);
    Policy copy = policy;
    BOOST_TEST(copy.remaining(noon) == 2);
    auto const t = copy.take(2, noon);
    BOOST_TEST(policy.remaining(noon) == 2);
    BOOST_TEST(copy.remaining(noon) == 0);
    policy = copy;
    BOOST_TEST(policy.remaining(noon) == 0);
    policy.refund(2, t, noon);
    BOOST_TEST(copy.remaining(noon) == 0);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(is_not_changed_by_nonsense, Policy, policies) {
    Policy policy(of_three<Policy>::options);
    policy.take(2, noon);
    BOOST_CHECK_THROW(policy.configure(of_three<Policy>::nonsense, noon), std::invalid_argument);
    BOOST_TEST(policy.capacity() == capacity_of<Policy>);
    BOOST_TEST(Policy(policy.options()).remaining(noon) == 3);
    BOOST_TEST(policy.remaining(noon) == 1);
    BOOST_CHECK_THROW((void)Policy(of_three<Policy>::nonsense), std::invalid_argument);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(merges_permits_into_one, Policy, policies) {
    Policy policy(of_three<Policy>::options);
    auto const a = policy.take(1, noon);
    auto const b = policy.take(2, noon);
    auto const both = policy.merge(a, b, 2);
    BOOST_TEST(policy.remaining(noon) == 0);
    policy.refund(3, both, noon);
    BOOST_TEST(policy.remaining(noon) == 3);
}

BOOST_AUTO_TEST_SUITE_END()
