#pragma once

#include <weir/detail/any_queue.hpp>
#include <weir/detail/line.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/room/watchers.hpp>
#include <weir/detail/shares_queue.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/policy/policy.hpp>
#include <weir/queue_options.hpp>
#include <weir/time.hpp>

#include <cstdint>
#include <stdexcept>
#include <utility>

namespace weir::inline v0_2::detail {

/// The slots of a limiter without keys: one, which has a policy and a line. It also defines the contract of slots, by
/// which a `room` finds the policy and the line of a request. `who` is nothing here, and a key in `key_slots`.
///
/// | expression                          | meaning                                                                    |
/// |-------------------------------------|----------------------------------------------------------------------------|
/// | `s.find(who...)`                    | the slot of a request, perhaps one that is not stored yet                  |
/// | `s.find(from)`                      | the slot of a permit, perhaps one that is no longer stored                 |
/// | `s.slot_of(line)`                   | the slot of a line                                                         |
/// | `s.line_of(op)`, `s.bind(op, line)` | the line of a waiting operation; `bind` sets it                            |
/// | `s.has_place(slot, now, who...)`    | store the slot unless it is stored; false if there is no space             |
/// | `s.open(slot, options, event)`      | the line of a stored slot, made if needed. May throw, without an effect    |
/// | `s.rest(line, now, next)`           | after an event: give the line up, or schedule it for `next(line)`          |
/// | `s.each_outdated`, `s.each_due`     | call `f(line)` for lines with work, until the budget is spent              |
/// | `s.is_work_due`, `s.next_at`        | whether a line has work without regard to time; when one has work          |
/// | `s.each_turn`, `s.next_turn`        | `has_turns`: like `each_due` and `next_at`, for lines that share permits    |
/// | `s.is_unlimited`, `s.elapse(now)`   | `is_fed`: as the members of a `fed_policy`                                  |
/// | `s.feed(slot, demand, now)`         | `is_fed`, many lines: makes the commands of a slot; returns when to do so again |
/// | `s.took(slot, now)`                 | `is_fed`, many lines: makes the commands that a grant causes                |
/// | `s.give_back(from, n)`              | `is_fed`, many lines: makes the command to give back unused permits         |
/// | `s.has_command`, `s.pop_command`    | `is_fed`, many lines: the commands                                          |
/// | `s.retain(key)`, `s.release(key)`   | count the permit objects that carry this key                               |
/// | `s.count`, `s.count_rejection`      | count a newcomer; a rejection after that                                   |
template <limiting_policy Policy, class Queue = any_queue>
class one_slot {
public:
    static constexpr bool is_one = true;
    static constexpr bool has_turns = false;
    static constexpr bool is_fed = fed_policy<Policy>;
    static constexpr bool ignores_leave = false;
    using policy_type = Policy;
    using feed_type = Policy;
    using options_type = typename Policy::options_type;
    using queue_type = Queue;
    using line_type = detail::line<Queue>;
    using watchers_type = watchers<Policy>;

    /// A reference to the only slot, which exists always.
    class slot {
    public:
        explicit operator bool() const noexcept { return true; }
        [[nodiscard]] Policy& policy() const noexcept { return all_->policy_; }
        [[nodiscard]] line_type* line() const noexcept { return &all_->line_; }
        [[nodiscard]] static constexpr std::uint64_t key() noexcept { return 0; }

    private:
        friend one_slot;
        explicit slot(one_slot& all) noexcept : all_(&all) {}
        one_slot* all_;
    };

    one_slot(Policy&& policy, queue_options const& queueing)
        : policy_(std::move(policy)), line_(queueing) {}
    one_slot(options_type const& options, queue_options const& queueing)
        : one_slot(Policy(options), queueing) {}

    static void check(queue_options const& queueing) {
        if (is_fed && queueing.order == queue_order::shares)
            throw std::invalid_argument(
                "weir::queue_options: shared limiters do not support the order shares");
        if (is_fed && queueing.dry_run)
            throw std::invalid_argument(
                "weir::queue_options: shared limiters and pools do not support dry_run");
    }
    static void check_change(queue_options const& before, queue_options const& next) {
        Queue::check_change(before, next);
    }
    void begin(time_point now) noexcept { policy_.begin(now); }

    [[nodiscard]] Policy& policy() noexcept { return policy_; }
    [[nodiscard]] Policy const& policy() const noexcept { return policy_; }
    [[nodiscard]] line_type& line() noexcept { return line_; }
    [[nodiscard]] shares_queue* accounts() noexcept { return line_.accounts(); }
    [[nodiscard]] shares_queue const* accounts() const noexcept { return line_.accounts(); }
    [[nodiscard]] bool timed() const noexcept { return policy_.timed(); }
    [[nodiscard]] bool is_unlimited() const noexcept
        requires is_fed
    {
        return policy_.is_unlimited();
    }
    [[nodiscard]] bool elapse(time_point now) noexcept
        requires is_fed
    {
        return policy_.elapse(now);
    }
    [[nodiscard]] bool times_leave() const noexcept { return weir::times_leave(policy_); }

    // Like a pointer, a slot does not depend on the constness of the object that returns it.
    [[nodiscard]] slot find() const noexcept { return slot(const_cast<one_slot&>(*this)); }
    [[nodiscard]] slot find(permit_origin) const noexcept { return find(); }
    [[nodiscard]] slot slot_of(line_type&) const noexcept { return find(); }
    [[nodiscard]] line_type& line_of(operation const&) noexcept { return line_; }
    static void bind(operation&, line_type&) noexcept {}
    [[nodiscard]] static bool has_place(slot, time_point) noexcept { return true; }
    [[nodiscard]] static bool has_place(slot, time_point, permit_origin) noexcept { return true; }
    [[nodiscard]] line_type& open(slot, queue_options const&, std::uint64_t) noexcept {
        return line_;
    }

    template <class Next>
    static void rest(line_type&, time_point, Next) noexcept {}
    static void mark_current(line_type& l, std::uint64_t event) noexcept { l.last_event = event; }
    template <class F>
    void each_outdated(std::uint64_t, int&, F f) noexcept {
        f(line_);
    }
    template <class F>
    void each_due(time_point, int&, F f) noexcept {
        f(line_);
    }
    [[nodiscard]] bool is_work_due(std::uint64_t) const noexcept { return line_.is_sweeping(); }
    template <class Next>
    [[nodiscard]] time_point next_at(Next next) noexcept {
        return next(line_);
    }
    template <class F>
    void each_line(F f) noexcept {
        f(line_);
    }

    static void retain(std::uint64_t) noexcept {}
    static void release(std::uint64_t) noexcept {}
    static void count(slot, bool) noexcept {}
    static void count_rejection(line_type const&, error_code) noexcept {}

private:
    Policy policy_;
    line_type line_;
};

}  // namespace weir::inline v0_2::detail
