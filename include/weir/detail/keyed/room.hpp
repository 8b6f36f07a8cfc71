#pragma once

#include <weir/detail/any_queue.hpp>
#include <weir/detail/keyed/heavy_keys.hpp>
#include <weir/detail/keyed/slots.hpp>
#include <weir/detail/keyed/states.hpp>
#include <weir/detail/published.hpp>
#include <weir/detail/room.hpp>
#include <weir/permit.hpp>
#include <weir/policy/rule.hpp>
#include <weir/queue_options.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace weir::inline v0_2::detail {

/// The room of a limiter by key, with the functions that concern one key or its table.
template <class Key, class Hash, limiting_rule Rule, class Queue = any_queue>
class keyed_room : public room<key_slots<Key, Hash, Rule, Queue>> {
    using base = room<key_slots<Key, Hash, Rule, Queue>>;
    using typename base::line_change;
    using line_type = typename base::slots_type::line_type;
    using shared_rule = typename base::slots_type::shared_rule;
    using versioned_rule = typename base::slots_type::versioned_rule;
    using base::slots;

public:
    using base::base;

    /// Cancels all waiting requests of the key.
    template <class Like>
    void cancel_key(keyed_lookup<Like> const& who, time_point now) noexcept {
        this->cancel_line(this->find(who).line(), now);
    }

    /// Gives the key its own rule or, without one, the common rule. Returns false if there is no space for another
    /// key. Throws `std::bad_alloc`, and then changes nothing.
    template <class Like>
    [[nodiscard]] bool configure(keyed_lookup<Like> const& who, shared_rule own, time_point now) {
        auto s = this->find(who);
        if (!own && !s)
            return true;
        if (!slots().has_place(s, now, who))
            return false;
        if (!own && !s.line())
            return true;
        auto& l = slots().open(s, this->queueing(), this->last_event());
        line_change const here(*this, &l, now);
        slots().change_rule(l, std::move(own), now);
        line_events::reprice(l);
        return true;
    }

    /// Applies `next`, or a newer rule that came meanwhile, to all keys of the page at `hash` without individual
    /// options, and to keys that join the page later. Returns the next page, or 0 after the last; see `keyed_states`.
    /// Throws `std::bad_alloc`; then earlier pages have changed, this page and later pages have not.
    [[nodiscard]] std::uint64_t configure(versioned_rule const& next, std::uint64_t hash,
                                          time_point now) {
        return slots().change_rule(next, hash, now, [&](line_type& l) {
            this->apply_events(l);
            line_change const here(*this, &l, now);
            line_events::reprice(l);
        });
    }

    /// Adopts other queue options; waiting requests stay. Does nothing if a newer version is in force.
    void set_queueing(published<queue_options>::version const& next) noexcept {
        if (next.number <= queueing_version_)
            return;
        queueing_version_ = next.number;
        base::set_queueing(next.value);
    }

    /// Calls `f(key, rule, state)` for each key of the page at `hash` whose state must be saved, as `key_slots`. Returns
    /// the next page, or 0 after the last; begin with hash 0.
    template <class F>
    [[nodiscard]] std::uint64_t each_used(std::uint64_t hash, time_point now, F f) const {
        return slots().each_used(hash, now, f);
    }
    /// Calls `f(rule, state)` with the state of a key that is not in the table.
    template <class F>
    void see_unused(F f) const {
        f(slots().states().newest(), slots().states().unused());
    }
    template <class F>
    void change_unused(F f) {
        slots().states().change_unused(f);
    }
    /// Calls `f(rule, state)` for the state that all keys share which have no place, if it exists.
    template <class F>
    void see_shared(F f) const {
        if (auto const* const l = slots().everyone())
            f(l->rule, l->state_of_key);
    }
    /// Calls `change(rule, state)` for that state, if it exists.
    template <class Change>
    void change_shared(time_point now, Change change) {
        auto* const l = slots().everyone();
        if (!l)
            return;
        line_change const here(*this, l, now);
        slots().change_state(slots().slot_of(*l), change);
        line_events::reprice(*l);
    }
    /// Calls `change(rule, state)` for the state of the key. Returns false if there is no space for another key.
    template <class Like, class Change>
    [[nodiscard]] bool change_state(keyed_lookup<Like> const& who, time_point now, Change change) {
        auto s = this->find(who);
        if (!slots().has_place(s, now, who))
            return false;
        if (auto* const l = s.line()) {
            line_change const here(*this, l, now);
            slots().change_state(s, change);
            line_events::reprice(*l);
        } else {
            slots().change_state(s, change);
        }
        return true;
    }

    // Results of questions, if permits come from elsewhere. `who` is the key of the command, which was made at `sent`.

    template <class Name, class Question, class Answer>
    void answered(Name const& who, Question const& q, Answer const& a, time_point sent,
                  time_point now) noexcept {
        auto s = this->find(who);
        line_change const here(*this, s.line(), now);
        slots().answered(s, who, q, a, sent, now);
        if (s.line())
            line_events::reprice(*s.line());
        else
            slots().took(s, now);
    }
    template <class Name, class Question, class Answer>
    void failed(Name const& who, Question const& q, Answer const& a, time_point now) noexcept {
        auto s = this->find(who);
        line_change const here(*this, s.line(), now);
        slots().failed(s, q, a, now);
    }

    using base::stats;
    /// Returns the present state of one key; past decisions are not counted per key.
    template <class Like>
    [[nodiscard]] limiter_stats stats(keyed_lookup<Like> const& who,
                                      time_point now) const noexcept {
        limiter_stats result;
        result.name = this->queueing().name;
        result.paused_for = this->pause().rest(now);
        this->add_slot(slots().find(who), now, result);
        return result;
    }
    template <class Like>
    [[nodiscard]] typename Rule::options_type options(keyed_lookup<Like> const& who) const {
        return typename Rule::options_type(slots().find(who).rule().options());
    }
    [[nodiscard]] std::size_t keys() const noexcept { return slots().states().size(); }
    [[nodiscard]] heavy_keys<Key> const& heavy() const noexcept { return slots().heavy(); }

    /// Returns whether the key is in the table.
    template <class Like>
    [[nodiscard]] bool knows(keyed_lookup<Like> const& who) const noexcept {
        return static_cast<bool>(slots().states().find(who));
    }
    /// Prefetches the memory of the key, before a request for it.
    template <class Like>
    void expect(keyed_lookup<Like> const& who) const noexcept {
        slots().states().prefetch(who.hash);
    }
    /// Prefetches the entry of the key at any place, since `expect` prefetches only one place. Call it after the memory
    /// of `expect` has arrived, for batches of keys.
    template <class Like>
    void expect_entry(keyed_lookup<Like> const& who) const noexcept {
        slots().states().prefetch_entry(who.hash);
    }

private:
    std::uint64_t queueing_version_ = 0;
};

}  // namespace weir::inline v0_2::detail
