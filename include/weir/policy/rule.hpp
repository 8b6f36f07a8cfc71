#pragma once

#include <weir/policy/policy.hpp>
#include <weir/saved_numbers.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace weir::inline v0_2 {

/// A policy in two parts: a constant rule, which many states can share, and a state as small as the rule allows.
///
/// A table of a million states needs one rule. `policy::ruled` is the policy with one rule and one state.
///
/// Each member works like the member of `limiting_policy` with the same name, on the state that it is given. The other
/// members are:
/// - `R(options)`: checks the options, or throws `std::invalid_argument`.
/// - `r.begin(now)`: returns a state whose time starts. A state that is not trivially copyable allocates its first
///   memory here, or throws `std::bad_alloc`.
/// - `r.restart(s, now)`: for such a state: restarts its time at `now` as in a new state, in the memory that it has.
/// - `r.take_over(s, old, before, now)`: `s` was just begun. Continues from `before`, which is a state of the rule
///   `old` and is only destroyed afterwards. Throws as `take_over` of a policy does.
/// - `r.are_alike(a, b, now)`: returns whether states `a` and `b` lead to the same decisions from now on. A temporary
///   false is allowed where true is correct, a permanent one is not. A state that is alike to an unused one can be
///   dropped.
/// - `R::heap_bytes(s)`: optional, returns the size of the heap memory of a state, as `heap_bytes` of a policy.
/// - `r.ready_from(s, n, ahead, now, from)`: optional, like `ready_from` of a policy.
/// - `r.forecast(s)`: optional, like `forecast` of a policy. A rule whose states are small and constant in size leaves it
///   out.
/// - `R::ignores_leave`: optional, a constant, true if `leave` never has an effect and need not be called.
// clang-format off
template <class R>
concept limiting_rule =
    std::movable<R> && std::is_nothrow_move_constructible_v<R> &&
    std::copyable<typename R::state_type> &&
    std::is_nothrow_move_constructible_v<typename R::state_type> &&
    std::constructible_from<R, typename R::options_type const&> &&
    requires(R const& r, typename R::state_type s, typename R::state_type const& cs, amount n,
             ticket t, time_point now) {
        { r.options() } -> std::convertible_to<typename R::options_type>;
        { r.capacity() } noexcept -> std::same_as<amount>;
        { r.timed() } noexcept -> std::same_as<bool>;
        { r.begin(now) } -> std::same_as<typename R::state_type>;
        { r.take_over(s, r, s, now) };
        { r.are_alike(cs, cs, now) } noexcept -> std::same_as<bool>;
        { r.remaining(cs, now) } noexcept -> std::same_as<amount>;
        { r.ready_at(cs, n, n, now) } noexcept -> std::same_as<time_point>;
        { r.take(s, n, now) } -> std::same_as<ticket>;
        { r.refund(s, n, t, now) } noexcept -> std::same_as<bool>;
        { r.merge(s, t, t, n) } noexcept -> std::same_as<ticket>;
    } &&
    (requires(R const& r, typename R::state_type s, amount n, ticket t) {
        { r.leave(s, n, t) } noexcept -> std::same_as<bool>;
    } || requires(R const& r, typename R::state_type s, amount n, ticket t, time_point now) {
        { r.leave(s, n, t, now) } noexcept -> std::same_as<bool>;
    }) &&
    (std::is_trivially_copyable_v<typename R::state_type> ||
     requires(R const& r, typename R::state_type s, time_point now) {
         { r.restart(s, now) } noexcept;
     });
// clang-format on

/// Whether `leave` of rule `R` need not be called.
template <limiting_rule R>
[[nodiscard]] constexpr bool ignores_leave() noexcept {
    if constexpr (requires { R::ignores_leave; })
        return R::ignores_leave;
    else
        return false;
}

/// A rule whose states can have heap memory, of which the rule knows the size.
template <class R>
concept heap_rule = limiting_rule<R> && requires(typename R::state_type const& s) {
    { R::heap_bytes(s) } noexcept -> std::same_as<std::size_t>;
};

/// A rule whose states can be saved, and restored in another process.
///
/// - `r.save(s, to, now)`, `r.load(s, from, then)`: like the members of `savable_policy`; `s` is a state that was just
///   begun.
/// - `r.resume(s, old, before, now, same)`: optional, like `resume` of a policy. A rule whose states have a meaning
///   without the rule leaves it out.
// clang-format off
template <class R>
concept savable_rule = limiting_rule<R> &&
    requires(R const& r, typename R::state_type s, typename R::state_type const& cs,
             number_writer& to, number_reader& from, time_point now) {
        { r.save(cs, to, now) };
        { r.load(s, from, now) } -> std::same_as<bool>;
    };
// clang-format on

/// A rule whose permits come from elsewhere, such as from a server.
///
/// - `R::question`, `R::give_back`, `R::answer`: the commands of a state, and the result of a question.
/// - `r.next_question(s, d, now)`: returns when `ask` may return a question; `never` if only another event causes one.
/// - `r.ask(s, d, now)`: returns the question that is due, if there is one.
/// - `r.take_spare(s, d, now)`: returns the permits that no request will use; `count` is 0 if there are none.
/// - `R::comes_from_store(t)`: returns whether unused permits of ticket `t` are given back, by `r.returned(n, t)`.
/// - `r.answered(s, q, a, sent, now)`, `r.failed(s, q)`: record the result of a question. `answered` returns false if the
///   state does not await it.
/// - `r.unavailable_until(now)`, `r.is_misconfigured()`, `r.is_unlimited()`: as in a `fed_policy`, for all states.
/// - `r.contact()`: returns what all states share, for many threads: `elapse(now)`, `changes()`, and the members of an
///   `eventful_policy`.
// clang-format off
template <class R>
concept fed_rule = limiting_rule<R> &&
    requires(R const& r, typename R::state_type s, typename R::state_type const& cs, demand const& d,
             typename R::question const& q, typename R::answer const& a, ticket t, amount n,
             time_point now) {
        { r.next_question(cs, d, now) } noexcept -> std::same_as<time_point>;
        { r.ask(s, d, now) } noexcept -> std::same_as<std::optional<typename R::question>>;
        { r.take_spare(s, d, now) } noexcept -> std::same_as<typename R::give_back>;
        { R::comes_from_store(t) } noexcept -> std::same_as<bool>;
        { r.returned(n, t) } noexcept -> std::same_as<typename R::give_back>;
        { r.answered(s, q, a, now, now) } noexcept -> std::same_as<bool>;
        { r.failed(s, q) } noexcept;
        { r.unavailable_until(now) } noexcept -> std::same_as<std::optional<time_point>>;
        { r.is_misconfigured() } noexcept -> std::same_as<bool>;
        { r.is_unlimited() } noexcept -> std::same_as<bool>;
        { r.contact() } noexcept;
    };
// clang-format on

/// Replaces the state `s` of the rule `r` by `before`, a state of the rule `old` that was loaded. `same` if both rules
/// have the same options.
template <savable_rule R>
void resume(R const& r, typename R::state_type& s, R const& old, typename R::state_type& before,
            time_point now, bool same) {
    if constexpr (requires { r.resume(s, old, before, now, same); })
        r.resume(s, old, before, now, same);
    else if (same)
        s = std::move(before);
    else
        r.take_over(s, old, before, now);
}

/// Releases `n` used permits of ticket `t` in a state of a rule.
template <limiting_rule R>
[[nodiscard]] bool leave(R const& r, typename R::state_type& s, amount n, ticket t,
                         time_point now) noexcept {
    if constexpr (requires { r.leave(s, n, t, now); })
        return r.leave(s, n, t, now);
    else
        return r.leave(s, n, t);
}

/// A rule that uses the reported outcomes of the work under its permits, as `uses_reports`.
template <class R>
concept rule_hears_reports = requires(R const& r, typename R::state_type s, ticket t, outcome o) {
    { r.report(s, t, o) } noexcept -> std::same_as<ticket>;
};

/// A rule that knows when permits can be taken after a pause, by the member `ready_from` of a policy.
template <class R>
concept rule_knows_pauses =
    requires(R const& r, typename R::state_type const& s, amount n, time_point t) {
        { r.ready_from(s, n, n, t, t) } noexcept -> std::same_as<time_point>;
    };

namespace policy {

template <limiting_rule Rule, class Held = Rule>
class ruled;

/// Returns the forecast of a rule and a state, which must exist as long as it: see `limiting_policy`.
template <limiting_rule Rule>
[[nodiscard]] auto forecast_of(Rule const& rule, typename Rule::state_type const& s) {
    if constexpr (requires { rule.forecast(s); }) {
        return rule.forecast(s);
    } else {
        static_assert(std::is_trivially_copyable_v<typename Rule::state_type>);
        auto copy = s;
        return ruled<Rule, Rule const*>(&rule, std::move(copy));
    }
}

/// A policy made of a rule and one state. `Held` is the rule, or a pointer to a shared rule.
template <limiting_rule Rule, class Held>
class ruled {
public:
    using rule_type = Rule;
    using state_type = typename Rule::state_type;
    using options_type = typename Rule::options_type;
    static constexpr auto schedule = schedule_of<Rule>();

    explicit ruled(options_type const& options)
        : rule_(make(options)), state_(rule().begin(time_point::min())) {}
    /// Continues from `state`.
    ruled(Held rule, state_type&& state) noexcept
        : rule_(std::move(rule)), state_(std::move(state)) {}

    void begin(time_point now) noexcept {
        if constexpr (std::is_trivially_copyable_v<state_type>)
            state_ = rule().begin(now);
        else
            rule().restart(state_, now);
    }
    void take_over(ruled& before, time_point now) noexcept(noexcept(
        std::declval<Rule const&>().take_over(state_, before.rule(), before.state_, now))) {
        rule().take_over(state_, before.rule(), before.state_, now);
    }

    [[nodiscard]] rule_type const& rule() const noexcept {
        if constexpr (std::is_same_v<Held, Rule>)
            return rule_;
        else
            return *rule_;
    }
    [[nodiscard]] state_type const& state() const noexcept { return state_; }
    /// Returns whether this policy and `other`, which have the same rule, make the same decisions from now on.
    [[nodiscard]] bool is_alike(ruled const& other, time_point now) const noexcept {
        return rule().are_alike(state_, other.state_, now);
    }

    [[nodiscard]] decltype(auto) options() const { return rule().options(); }
    [[nodiscard]] amount capacity() const noexcept { return rule().capacity(); }
    [[nodiscard]] bool timed() const noexcept { return rule().timed(); }
    [[nodiscard]] bool catches_up() const noexcept { return weir::catches_up(rule()); }
    [[nodiscard]] weir::tickets tickets() const noexcept { return tickets_of(rule()); }
    [[nodiscard]] amount remaining(time_point now) const noexcept {
        return rule().remaining(state_, now);
    }
    [[nodiscard]] amount debt(time_point now) const noexcept {
        if constexpr (requires { rule().debt(state_, now); })
            return rule().debt(state_, now);
        else
            return 0;
    }
    [[nodiscard]] time_point ready_at(amount n, amount ahead, time_point now) const noexcept {
        return rule().ready_at(state_, n, ahead, now);
    }
    [[nodiscard]] time_point ready_from(amount n, amount ahead, time_point now,
                                        time_point from) const noexcept
        requires rule_knows_pauses<Rule>
    {
        return rule().ready_from(state_, n, ahead, now, from);
    }
    [[nodiscard]] time_point ask_again_at(amount n, time_point now) const noexcept
        requires requires(Rule const& r, state_type const& s) { r.ask_again_at(s, n, now); }
    {
        return rule().ask_again_at(state_, n, now);
    }
    [[nodiscard]] auto forecast() const
        requires(schedule == weir::schedule::by_turns)
    {
        return forecast_of(rule(), state_);
    }
    [[nodiscard]] std::size_t heap_bytes() const noexcept
        requires heap_rule<Rule>
    {
        return Rule::heap_bytes(state_);
    }
    ticket take(amount n, time_point now) noexcept(
        noexcept(std::declval<Rule const&>().take(state_, n, now))) {
        return rule().take(state_, n, now);
    }
    bool leave(amount n, ticket t) noexcept
        requires requires(Rule const& r, state_type& s) { r.leave(s, n, t); }
    {
        return rule().leave(state_, n, t);
    }
    bool leave(amount n, ticket t, time_point now) noexcept
        requires requires(Rule const& r, state_type& s) { r.leave(s, n, t, now); }
    {
        return rule().leave(state_, n, t, now);
    }
    [[nodiscard]] bool times_leave() const noexcept { return weir::times_leave(rule()); }
    [[nodiscard]] ticket report(ticket t, outcome o) noexcept
        requires rule_hears_reports<Rule>
    {
        return rule().report(state_, t, o);
    }
    bool refund(amount n, ticket t, time_point now) noexcept {
        return rule().refund(state_, n, t, now);
    }
    ticket merge(ticket a, ticket b, amount n) noexcept { return rule().merge(state_, a, b, n); }
    void save(number_writer& to, time_point now) const
        requires savable_rule<Rule>
    {
        rule().save(state_, to, now);
    }
    [[nodiscard]] bool load(number_reader& from, time_point then)
        requires savable_rule<Rule>
    {
        return rule().load(state_, from, then);
    }
    void resume(ruled& before, time_point now, bool same)
        requires savable_rule<Rule>
    {
        weir::resume(rule(), state_, before.rule(), before.state_, now, same);
    }

private:
    static Held make(options_type const& options) {
        if constexpr (std::is_same_v<Held, Rule>)
            return Rule(options);
        else
            return std::make_shared<Rule const>(options);
    }

    Held rule_;
    state_type state_;
};

/// Adapts a policy without a separate rule: the state of this rule is the whole policy. The policy must define
/// `p.is_alike(q, now)`: whether `p` and `q` make the same decisions from now on.
template <limiting_policy Policy>
class whole_rule {
public:
    using options_type = typename Policy::options_type;
    using state_type = Policy;

    explicit whole_rule(options_type const& options) : model_(options) {}

    [[nodiscard]] state_type begin(time_point now) const {
        Policy fresh(options());
        fresh.begin(now);
        return fresh;
    }
    void restart(state_type& s, time_point now) const noexcept { s.begin(now); }
    void take_over(state_type& s, whole_rule const&, state_type& before, time_point now) const {
        s.take_over(before, now);
    }
    [[nodiscard]] bool are_alike(state_type const& a, state_type const& b,
                                 time_point now) const noexcept {
        return a.is_alike(b, now);
    }

    [[nodiscard]] options_type options() const { return model_.options(); }
    [[nodiscard]] amount capacity() const noexcept { return model_.capacity(); }
    [[nodiscard]] bool timed() const noexcept { return model_.timed(); }
    [[nodiscard]] weir::tickets tickets() const noexcept { return tickets_of(model_); }
    [[nodiscard]] bool catches_up() const noexcept { return weir::catches_up(model_); }
    [[nodiscard]] amount remaining(state_type const& s, time_point now) const noexcept {
        return s.remaining(now);
    }
    [[nodiscard]] amount debt(state_type const& s, time_point now) const noexcept {
        return debt_of(s, now);
    }
    [[nodiscard]] time_point ready_at(state_type const& s, amount n, amount ahead,
                                      time_point now) const noexcept {
        return s.ready_at(n, ahead, now);
    }
    [[nodiscard]] time_point ready_from(state_type const& s, amount n, amount ahead, time_point now,
                                        time_point from) const noexcept
        requires requires { s.ready_from(n, ahead, now, from); }
    {
        return s.ready_from(n, ahead, now, from);
    }
    [[nodiscard]] time_point ask_again_at(state_type const& s, amount n,
                                          time_point now) const noexcept
        requires requires { s.ask_again_at(n, now); }
    {
        return s.ask_again_at(n, now);
    }
    [[nodiscard]] static std::size_t heap_bytes(state_type const& s) noexcept
        requires requires { s.heap_bytes(); }
    {
        return s.heap_bytes();
    }
    ticket take(state_type& s, amount n, time_point now) const { return s.take(n, now); }
    bool leave(state_type& s, amount n, ticket t) const noexcept
        requires requires { s.leave(n, t); }
    {
        return s.leave(n, t);
    }
    bool leave(state_type& s, amount n, ticket t, time_point now) const noexcept
        requires requires { s.leave(n, t, now); }
    {
        return s.leave(n, t, now);
    }
    [[nodiscard]] bool times_leave() const noexcept { return weir::times_leave(model_); }
    [[nodiscard]] ticket report(state_type& s, ticket t, outcome o) const noexcept
        requires uses_reports<Policy>
    {
        return s.report(t, o);
    }
    bool refund(state_type& s, amount n, ticket t, time_point now) const noexcept {
        return s.refund(n, t, now);
    }
    ticket merge(state_type& s, ticket a, ticket b, amount n) const noexcept {
        return s.merge(a, b, n);
    }
    void save(state_type const& s, number_writer& to, time_point now) const
        requires savable_policy<Policy>
    {
        s.save(to, now);
    }
    [[nodiscard]] bool load(state_type& s, number_reader& from, time_point then) const
        requires savable_policy<Policy>
    {
        return s.load(from, then);
    }
    void resume(state_type& s, whole_rule const&, state_type& before, time_point now,
                bool same) const
        requires savable_policy<Policy>
    {
        s.resume(before, now, same);
    }

private:
    Policy model_;  // only its options are used
};

/// The rule of a policy.
template <class Policy>
struct rule_of {
    using type = whole_rule<Policy>;
};
template <class Policy>
    requires requires { typename Policy::rule_type; }
struct rule_of<Policy> {
    using type = typename Policy::rule_type;
};
template <class Policy>
using rule_of_t = typename rule_of<Policy>::type;

}  // namespace policy
}  // namespace weir::inline v0_2
