#pragma once

#include <weir/policy/policy.hpp>

#include <concepts>
#include <type_traits>
#include <utility>

namespace weir {

/// A policy in two parts: a rule, which does not change and can be shared by many, and a state, which is
/// as small as the rule allows. A table of a million states needs one rule. `policy::ruled` is the
/// policy that has one rule and one state.
///
/// Each member does what that of `limiting_policy` does, to the state that it is given. The others are:
///
/// | expression                         | what it must do                                           |
/// |------------------------------------|-----------------------------------------------------------|
/// | `R(options)`                       | check the options, or throw `std::invalid_argument`       |
/// | `r.begin(now)`                     | a state whose time begins. A state that is not trivially  |
/// |                                    | copyable sets memory aside here, or throws                |
/// |                                    | `std::bad_alloc`                                          |
/// | `r.restart(s, now)`                | for such a state: let its time begin now, as if it were   |
/// |                                    | new, in the memory that it has                            |
/// | `r.take_over(s, old, before, now)` | `s` has just been begun: go on from `before`, which is a  |
/// |                                    | state of the rule `old` and is only destroyed afterwards; |
/// |                                    | throws as `take_over` of a policy does                    |
/// | `r.is_fresh(s, now)`               | whether `s` decides from now on as a state would that     |
/// |                                    | begins now. Such a state can be forgotten, and a new one  |
/// |                                    | made when it is needed                                    |
// clang-format off
template <class R>
concept limiting_rule =
    std::movable<R> && std::is_nothrow_move_constructible_v<R> &&
    std::movable<typename R::state_type> &&
    std::is_nothrow_move_constructible_v<typename R::state_type> &&
    std::constructible_from<R, typename R::options_type const&> &&
    requires(R const& r, typename R::state_type s, typename R::state_type const& cs, amount n,
             ticket t, time_point now) {
        { r.options() } -> std::convertible_to<typename R::options_type>;
        { r.capacity() } noexcept -> std::same_as<amount>;
        { r.timed() } noexcept -> std::same_as<bool>;
        { r.begin(now) } -> std::same_as<typename R::state_type>;
        { r.take_over(s, r, s, now) };
        { r.is_fresh(cs, now) } noexcept -> std::same_as<bool>;
        { r.remaining(cs, now) } noexcept -> std::same_as<amount>;
        { r.ready_at(cs, n, n, now) } noexcept -> std::same_as<time_point>;
        { r.take(s, n, now) } -> std::same_as<ticket>;
        { r.leave(s, n, t) } noexcept -> std::same_as<bool>;
        { r.refund(s, n, t, now) } noexcept -> std::same_as<bool>;
        { r.merge(s, t, t, n) } noexcept -> std::same_as<ticket>;
    } &&
    (std::is_trivially_copyable_v<typename R::state_type> ||
     requires(R const& r, typename R::state_type s, time_point now) {
         { r.restart(s, now) } noexcept;
     });
// clang-format on

namespace policy {

/// A rule with a state of its own.
template <limiting_rule Rule>
class ruled {
public:
    using rule_type = Rule;
    using state_type = typename Rule::state_type;
    using options_type = typename Rule::options_type;

    explicit ruled(options_type const& options)
        : rule_(options), state_(rule_.begin(time_point::min())) {}

    void begin(time_point now) noexcept {
        if constexpr (std::is_trivially_copyable_v<state_type>)
            state_ = rule_.begin(now);
        else
            rule_.restart(state_, now);
    }
    void take_over(ruled& before, time_point now) noexcept(
        noexcept(rule_.take_over(state_, before.rule_, before.state_, now))) {
        rule_.take_over(state_, before.rule_, before.state_, now);
    }

    [[nodiscard]] rule_type const& rule() const noexcept { return rule_; }
    [[nodiscard]] state_type const& state() const noexcept { return state_; }

    [[nodiscard]] options_type const& options() const noexcept { return rule_.options(); }
    [[nodiscard]] amount capacity() const noexcept { return rule_.capacity(); }
    [[nodiscard]] bool timed() const noexcept { return rule_.timed(); }
    [[nodiscard]] bool catches_up() const noexcept { return weir::catches_up(rule_); }
    [[nodiscard]] weir::tickets tickets() const noexcept { return tickets_of(rule_); }
    [[nodiscard]] amount remaining(time_point now) const noexcept {
        return rule_.remaining(state_, now);
    }
    [[nodiscard]] amount debt(time_point now) const noexcept {
        if constexpr (requires { rule_.debt(state_, now); })
            return rule_.debt(state_, now);
        else
            return 0;
    }
    [[nodiscard]] time_point ready_at(amount n, amount ahead, time_point now) const noexcept {
        return rule_.ready_at(state_, n, ahead, now);
    }
    ticket take(amount n, time_point now) noexcept(noexcept(rule_.take(state_, n, now))) {
        return rule_.take(state_, n, now);
    }
    bool leave(amount n, ticket t) noexcept { return rule_.leave(state_, n, t); }
    bool refund(amount n, ticket t, time_point now) noexcept {
        return rule_.refund(state_, n, t, now);
    }
    ticket merge(ticket a, ticket b, amount n) noexcept { return rule_.merge(state_, a, b, n); }

private:
    Rule rule_;
    state_type state_;
};

}  // namespace policy
}  // namespace weir
