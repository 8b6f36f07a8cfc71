#pragma once

#include <weir/policy/all.hpp>
#include <weir/policy/limiter_config.hpp>
#include <weir/policy/policy.hpp>
#include <weir/policy/visit_inline.hpp>
#include <weir/saved_numbers.hpp>

#include <cstddef>
#include <optional>
#include <variant>
#include <vector>

namespace weir::inline v0_2::policy {

class any;

/// A policy of several policies that are chosen at run time.
class all_chosen : public joint<std::vector<any>> {
public:
    using options_type = all_options;

    /// Throws `std::invalid_argument` if the list of policies is empty.
    explicit all_chosen(options_type const& options);

    [[nodiscard]] bool is_like(all_chosen const& other) const noexcept;
    /// Continues from `before`, which must have parts of the same kinds.
    void take_over(all_chosen& before, time_point now);
    [[nodiscard]] options_type options() const;

    [[nodiscard]] time_point next_overdue() const noexcept { return first_overdue(); }
    [[nodiscard]] std::optional<overdue> pop_overdue(time_point now) noexcept {
        return pop_first_overdue(now);
    }
};

/// A policy whose rule is chosen at run time, by its options.
///
/// Guarantee and memory: as the rule, and 8 bytes. Options can be changed, but not the kind of limiter, because permits
/// in use belong to the rule that granted them. Another kind throws `std::invalid_argument`; it needs a new limiter.
class any {
public:
    using options_type = limiter_config;

    explicit any(options_type const& options);

    [[nodiscard]] options_type options() const {
        return detail::visit_inline(
            [](auto const& p) { return options_type(p.options()); }, policy_);
    }
    void begin(time_point now) noexcept {
        detail::visit_inline([&](auto& p) { p.begin(now); }, policy_);
    }
    /// Continues from `before`. Throws `std::invalid_argument` if `before` is of another kind.
    void take_over(any& before, time_point now);

    /// Returns whether both are of the same kind, and so are their parts.
    [[nodiscard]] bool is_like(any const& other) const noexcept;

    /// Returns whether both, which are of the same kind, make the same decisions from now on.
    [[nodiscard]] bool is_alike(any const& other, time_point now) const noexcept {
        return detail::visit_inline(
            [&]<class Policy>(Policy const& p) {
                return p.is_alike(*std::get_if<Policy>(&other.policy_), now);
            },
            policy_);
    }
    [[nodiscard]] amount capacity() const noexcept {
        return detail::visit_inline([](auto const& p) { return p.capacity(); }, policy_);
    }
    [[nodiscard]] bool timed() const noexcept {
        return detail::visit_inline([](auto const& p) { return p.timed(); }, policy_);
    }
    [[nodiscard]] weir::tickets tickets() const noexcept {
        return detail::visit_inline([](auto const& p) { return tickets_of(p); }, policy_);
    }
    [[nodiscard]] bool catches_up() const noexcept {
        return detail::visit_inline([](auto const& p) { return weir::catches_up(p); }, policy_);
    }
    [[nodiscard]] amount remaining(time_point now) const noexcept {
        return detail::visit_inline([&](auto const& p) { return p.remaining(now); }, policy_);
    }
    [[nodiscard]] amount debt(time_point now) const noexcept {
        return detail::visit_inline([&](auto const& p) { return debt_of(p, now); }, policy_);
    }
    [[nodiscard]] time_point ready_at(amount n, amount ahead, time_point now) const noexcept {
        return detail::visit_inline(
            [&](auto const& p) { return p.ready_at(n, ahead, now); }, policy_);
    }
    [[nodiscard]] time_point ready_from(amount n, amount ahead, time_point now,
                                        time_point from) const noexcept {
        return detail::visit_inline(
            [&](auto const& p) { return weir::ready_from(p, n, ahead, now, from); }, policy_);
    }
    [[nodiscard]] time_point ask_again_at(amount n, time_point now) const noexcept {
        return detail::visit_inline(
            [&](auto const& p) { return weir::ask_again_at(p, n, now); }, policy_);
    }
    [[nodiscard]] std::size_t heap_bytes() const noexcept {
        return detail::visit_inline([](auto const& p) { return heap_bytes_of(p); }, policy_);
    }
    ticket take(amount n, time_point now) {
        return detail::visit_inline([&](auto& p) { return p.take(n, now); }, policy_);
    }
    [[nodiscard]] bool times_leave() const noexcept {
        return detail::visit_inline([](auto const& p) { return weir::times_leave(p); }, policy_);
    }
    bool leave(amount n, ticket t, time_point now) noexcept {
        return detail::visit_inline([&](auto& p) { return weir::leave(p, n, t, now); }, policy_);
    }
    [[nodiscard]] ticket report(ticket t, outcome o) noexcept {
        return detail::visit_inline(
            [&]<class Policy>(Policy& p) {
                if constexpr (uses_reports<Policy>)
                    return p.report(t, o);
                else
                    return t;
            },
            policy_);
    }
    [[nodiscard]] amount capacity_now() const noexcept {
        return detail::visit_inline([](auto const& p) { return capacity_now_of(p); }, policy_);
    }
    bool refund(amount n, ticket t, time_point now) noexcept {
        return detail::visit_inline([&](auto& p) { return p.refund(n, t, now); }, policy_);
    }
    ticket merge(ticket a, ticket b, amount n) noexcept {
        return detail::visit_inline([&](auto& p) { return p.merge(a, b, n); }, policy_);
    }

    /// Saves the state of the rule, if its states can be saved.
    void save(number_writer& to, time_point now) const {
        std::visit(
            [&]<class Policy>(Policy const& p) {
                if constexpr (savable_policy<Policy>)
                    p.save(to, now);
            },
            policy_);
    }
    [[nodiscard]] bool load(number_reader& from, time_point then) {
        return std::visit(
            [&]<class Policy>(Policy& p) {
                if constexpr (savable_policy<Policy>)
                    return p.load(from, then);
                else
                    return from.is_done();
            },
            policy_);
    }
    void resume(any& before, time_point now, bool same) {
        std::visit(
            [&]<class Policy>(Policy& p) {
                if constexpr (savable_policy<Policy>)
                    p.resume(std::get<Policy>(before.policy_), now, same);
            },
            policy_);
    }

    [[nodiscard]] time_point next_overdue() const noexcept {
        return detail::visit_inline(
            []<class Policy>(Policy const& p) {
                if constexpr (watchful_policy<Policy>)
                    return p.next_overdue();
                else
                    return never;
            },
            policy_);
    }
    [[nodiscard]] std::optional<overdue> pop_overdue(time_point now) noexcept {
        return detail::visit_inline(
            [&]<class Policy>(Policy& p) -> std::optional<overdue> {
                if constexpr (watchful_policy<Policy>)
                    return p.pop_overdue(now);
                else
                    return std::nullopt;
            },
            policy_);
    }

private:
    detail::chosen_at_run_time::policies<all_chosen> policy_;
};

}  // namespace weir::inline v0_2::policy
