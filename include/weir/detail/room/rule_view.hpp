#pragma once

#include <weir/amount.hpp>
#include <weir/permit.hpp>
#include <weir/policy/policy.hpp>
#include <weir/policy/rule.hpp>
#include <weir/time.hpp>

namespace weir::inline v0_2::detail {

/// A rule and one of its states, seen as a policy: a `policy::ruled` that owns neither of them.
template <limiting_rule Rule>
class rule_view {
public:
    using state_type = typename Rule::state_type;

    rule_view(Rule const& r, state_type& s) noexcept : rule_(r), state_(s) {}

    [[nodiscard]] amount capacity() const noexcept { return rule_.capacity(); }
    [[nodiscard]] bool catches_up() const noexcept { return weir::catches_up(rule_); }
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
    [[nodiscard]] time_point ask_again_at(amount n, time_point now) const noexcept
        requires requires(Rule const& r, state_type const& s) { r.ask_again_at(s, n, now); }
    {
        return rule_.ask_again_at(state_, n, now);
    }
    ticket take(amount n, time_point now) const { return rule_.take(state_, n, now); }
    bool leave(amount n, ticket t, time_point now) const noexcept {
        return weir::leave(rule_, state_, n, t, now);
    }
    bool refund(amount n, ticket t, time_point now) const noexcept {
        return rule_.refund(state_, n, t, now);
    }
    [[nodiscard]] ticket merge(ticket a, ticket b, amount n) const noexcept {
        return rule_.merge(state_, a, b, n);
    }
    [[nodiscard]] ticket report(ticket t, outcome o) const noexcept
        requires rule_hears_reports<Rule>
    {
        return rule_.report(state_, t, o);
    }

private:
    Rule const& rule_;
    state_type& state_;
};

}  // namespace weir::inline v0_2::detail
