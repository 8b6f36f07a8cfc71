#pragma once

#include <weir/amount.hpp>
#include <weir/permit.hpp>
#include <weir/policy/policy.hpp>
#include <weir/policy/rule.hpp>
#include <weir/time.hpp>

#include <atomic>
#include <cstddef>
#include <optional>

namespace weir::inline v0_2::detail {

/// The size of the heap memory of many states, of which each change of a state is a part.
template <limiting_rule Rule>
class heap_sum {
public:
    explicit heap_sum(std::atomic<std::size_t>&) noexcept {}

    void add(typename Rule::state_type const&) const noexcept {}
    void subtract(typename Rule::state_type const&) const noexcept {}
};
template <heap_rule Rule>
class heap_sum<Rule> {
public:
    explicit heap_sum(std::atomic<std::size_t>& sum) noexcept : sum_(&sum) {}

    void add(typename Rule::state_type const& s) const noexcept { change(Rule::heap_bytes(s)); }
    void subtract(typename Rule::state_type const& s) const noexcept {
        change(std::size_t{} - Rule::heap_bytes(s));
    }
    /// Adds `n`, which wraps if the memory shrinks.
    void change(std::size_t n) const noexcept {
        if (n != 0) [[unlikely]]
            sum_->fetch_add(n, std::memory_order_relaxed);
    }

private:
    std::atomic<std::size_t>* sum_;
};

/// Records a change of the heap memory of a state from the construction of this object to its destruction.
template <limiting_rule Rule>
struct heap_change {
    heap_change(heap_sum<Rule> const&, typename Rule::state_type const&) noexcept {}
};
template <heap_rule Rule>
class heap_change<Rule> {
public:
    heap_change(heap_sum<Rule> const& sum, typename Rule::state_type const& s) noexcept
        : sum_(sum), state_(s), before_(Rule::heap_bytes(s)) {}
    heap_change(heap_change const&) = delete;
    ~heap_change() { sum_.change(Rule::heap_bytes(state_) - before_); }

private:
    heap_sum<Rule> const& sum_;
    typename Rule::state_type const& state_;
    std::size_t before_;
};

/// A rule and one of its states, seen as a policy: a `policy::ruled` that owns neither of them. It adds changes of the
/// heap memory of the state to a sum.
template <limiting_rule Rule>
class rule_view {
public:
    using state_type = typename Rule::state_type;
    static constexpr auto schedule = schedule_of<Rule>();

    rule_view(Rule const& r, state_type& s, heap_sum<Rule> heap) noexcept
        : rule_(r), state_(s), heap_(heap) {}

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
    [[nodiscard]] time_point ready_from(amount n, amount ahead, time_point now,
                                        time_point from) const noexcept
        requires rule_knows_pauses<Rule>
    {
        return rule_.ready_from(state_, n, ahead, now, from);
    }
    [[nodiscard]] time_point ask_again_at(amount n, time_point now) const noexcept
        requires requires(Rule const& r, state_type const& s) { r.ask_again_at(s, n, now); }
    {
        return rule_.ask_again_at(state_, n, now);
    }
    [[nodiscard]] auto forecast() const
        requires(schedule == weir::schedule::by_turns)
    {
        return policy::forecast_of(rule_, state_);
    }
    ticket take(amount n, time_point now) const {
        [[maybe_unused]] heap_change<Rule> const noted(heap_, state_);
        return rule_.take(state_, n, now);
    }
    bool leave(amount n, ticket t, time_point now) const noexcept {
        [[maybe_unused]] heap_change<Rule> const noted(heap_, state_);
        return weir::leave(rule_, state_, n, t, now);
    }
    bool refund(amount n, ticket t, time_point now) const noexcept {
        [[maybe_unused]] heap_change<Rule> const noted(heap_, state_);
        return rule_.refund(state_, n, t, now);
    }
    [[nodiscard]] ticket merge(ticket a, ticket b, amount n) const noexcept {
        return rule_.merge(state_, a, b, n);
    }
    [[nodiscard]] std::optional<time_point> unavailable_until(time_point now) const noexcept
        requires fed_rule<Rule>
    {
        return rule_.unavailable_until(now);
    }
    [[nodiscard]] bool is_misconfigured() const noexcept
        requires fed_rule<Rule>
    {
        return rule_.is_misconfigured();
    }
    [[nodiscard]] ticket report(ticket t, outcome o) const noexcept
        requires rule_hears_reports<Rule>
    {
        return rule_.report(state_, t, o);
    }

private:
    Rule const& rule_;
    state_type& state_;
    [[no_unique_address]] heap_sum<Rule> heap_;
};

}  // namespace weir::inline v0_2::detail
