#pragma once

#include <weir/detail/any_queue.hpp>
#include <weir/detail/key_handle.hpp>
#include <weir/detail/keyed/feed.hpp>
#include <weir/detail/keyed/heavy_keys.hpp>
#include <weir/detail/keyed/line.hpp>
#include <weir/detail/keyed/states.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/room/line_schedule.hpp>
#include <weir/detail/room/rule_view.hpp>
#include <weir/detail/shares_queue.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/policy/rule.hpp>
#include <weir/queue_options.hpp>
#include <weir/time.hpp>

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace weir::inline v0_2::detail {

class chain_core;

template <class Rule, class Hash>
struct shard_options {
    std::shared_ptr<Rule const> rule;
    std::shared_ptr<keyed_bounds<Hash>> bounds;
    bool all_share_one = false;  // for all callers, with any key
    std::uint32_t heavy_keys = 0;
    std::optional<time_point> begin = {};  // of the states; by default the beginning of the room
    std::shared_ptr<chain_core> next =
        {};  // decides on new keys without a place; null to reject them
};

/// The slots of a limiter by key, with the contract of `one_slot`: a table of keys and their states. While a request
/// waits for a key, or while the key has individual options, its state is in a line, and the table refers to the line.
template <class Key, class Hash, limiting_rule Rule, class Queue = any_queue>
class key_slots : public line_schedule<keyed_line<Key, Rule, Queue>> {
public:
    static constexpr bool is_one = false;
    static constexpr bool has_turns = false;
    using feed_type = key_feed<Key, Rule>;
    static constexpr bool is_fed = feed_type::exists;
    static constexpr bool ignores_leave = weir::ignores_leave<Rule>();
    using policy_type = rule_view<Rule>;
    using options_type = shard_options<Rule, Hash>;
    using queue_type = Queue;
    using line_type = keyed_line<Key, Rule, Queue>;
    using watchers_type = typename feed_type::watchers_type;
    using states_type = keyed_states<Key, Hash, Rule, line_type>;
    using shared_rule = typename states_type::shared_rule;
    using versioned_rule = typename states_type::versioned_rule;

private:
    using spot = typename states_type::spot;
    using state = typename states_type::state;
    using handle = typename states_type::handle;

public:
    /// The state of a key: in the table, in a line, or the state of a key that was never used.
    class slot {
    public:
        /// Returns whether the key is stored.
        explicit operator bool() const noexcept { return line_ || where_; }
        [[nodiscard]] rule_view<Rule> policy() const noexcept { return {*rule_, *state_, heap_}; }
        [[nodiscard]] Rule const& rule() const noexcept { return *rule_; }
        [[nodiscard]] line_type* line() const noexcept { return line_; }
        [[nodiscard]] std::uint64_t key() const noexcept {
            return (line_ ? line_->key : where_.key()).word();
        }

    private:
        friend key_slots;
        slot(heap_sum<Rule> const& heap, line_type& l) noexcept
            : heap_(heap), rule_(l.rule.get()), state_(&l.state_of_key), line_(&l) {}
        [[gnu::always_inline]] slot(heap_sum<Rule> const& heap, spot where) noexcept
            : heap_(heap), where_(where) {
            if (auto* const l = where.line()) [[unlikely]] {
                *this = slot(heap, *l);
                where_ = where;
            } else {
                rule_ = &where.rule();
                state_ = &where.own_state();
            }
        }
        // The state is only read: a key is stored before its state changes.
        slot(heap_sum<Rule> const& heap, Rule const& rule, state const& unused) noexcept
            : heap_(heap), rule_(&rule), state_(const_cast<state*>(&unused)) {}

        [[no_unique_address]] heap_sum<Rule> heap_;
        spot where_;
        Rule const* rule_ = nullptr;
        state* state_ = nullptr;
        line_type* line_ = nullptr;
    };

    key_slots(options_type const& options, queue_options const& queueing)
        : timed_(options.rule->timed()),
          times_leave_(weir::times_leave(*options.rule)),
          has_keys_(!options.all_share_one),
          begin_(options.begin),
          next_(options.next),
          states_(options.rule, options.bounds),
          heavy_(options.heavy_keys) {
        if (options.all_share_one) {
            everyone_ = new line_type(
                queueing, handle::from(0), options.rule, options.rule->begin(time_point::min()));
            everyone_->stays = true;
            states_.heap().add(everyone_->state_of_key);
            this->add(*everyone_);
        }
    }

    static void check(queue_options const& queueing) {
        static_assert(!std::same_as<Queue, shares_queue>,
                      "keyed limiters do not support the order shares");
        if (queueing.order == queue_order::shares)
            throw std::invalid_argument(
                "weir::queue_options: keyed limiters do not support the order shares");
        if (is_fed && queueing.dry_run)
            throw std::invalid_argument(
                "weir::queue_options: shared limiters do not support dry_run");
    }
    static void check_change(queue_options const&, queue_options const&) noexcept {}

    void begin(time_point now) noexcept {
        auto const at = begin_.value_or(now);
        states_.begin(at);
        if (everyone_)
            everyone_->begin(at);
    }

    [[nodiscard]] states_type& states() noexcept { return states_; }
    [[nodiscard]] states_type const& states() const noexcept { return states_; }
    [[nodiscard]] heavy_keys<Key> const& heavy() const noexcept { return heavy_; }
    [[nodiscard]] static shares_queue* accounts() noexcept { return nullptr; }
    /// The core that decides on new keys for which there is no place here, or null.
    [[nodiscard]] chain_core* next() const noexcept { return next_.get(); }
    [[nodiscard]] bool timed() const noexcept { return timed_; }
    [[nodiscard]] bool times_leave() const noexcept { return times_leave_; }

    // Slots and lines.

    template <class Like>
    [[nodiscard]] slot find(keyed_lookup<Like> const& who) const noexcept {
        if (everyone_) [[unlikely]]
            return slot_of(*everyone_);
        if (auto const where = states_.find(who)) [[likely]]
            return slot(states_.heap(), where);
        return unused(who.hash);
    }
    [[nodiscard]] slot find(permit_origin from) const noexcept {
        if (everyone_) [[unlikely]]
            return slot_of(*everyone_);
        auto const key = handle::from(from.key);
        if (auto const where = states_.find(key)) [[likely]]
            return slot(states_.heap(), where);
        return unused(states_.hash_of(key));
    }
    [[nodiscard]] slot slot_of(line_type& l) const noexcept { return slot(states_.heap(), l); }

    template <class Like>
    [[nodiscard]] bool has_place(slot& s, time_point now, keyed_lookup<Like> const& who) noexcept {
        return s || store(s, who.key, who.hash, now);
    }
    [[nodiscard]] bool has_place(slot& s, time_point now, permit_origin from) noexcept {
        auto const key = handle::from(from.key);
        return s || store(s, key.key(), states_.hash_of(key), now);
    }
    [[nodiscard]] line_type& open(slot& s, queue_options const& queueing, std::uint64_t event) {
        if (s.line_)
            return *s.line_;
        auto* const l = new line_type(
            queueing, s.where_.key(), s.where_.shared(), std::move(s.where_.own_state()));
        l->last_event = event;
        this->add(*l);
        s.where_.put(*l);
        s = slot_of(*l);
        return *l;
    }
    template <class Next>
    void rest(line_type& l, time_point, Next next) noexcept {
        if (!l.is_idle())
            return this->schedule(l, next(l));
        this->schedule(l, never);
        if (l.stays)
            return;
        auto const at_end = this->remove(l);
        states_.find(l.key).put(std::move(l.state_of_key));
    }

    // Counts.

    void retain(std::uint64_t key) const noexcept {
        if (has_keys_)
            handle::from(key).retain();
    }
    void release(std::uint64_t key) const noexcept {
        if (has_keys_)
            handle::from(key).release();
    }
    template <class Like>
    void count(slot const& s, bool is_rejected, keyed_lookup<Like> const& who) noexcept {
        if (!heavy_.is_on()) [[likely]]
            return;
        heavy_.count(who.key, who.hash, is_rejected, [&] {
            if (!has_keys_ || !s)
                return handle::make(who.key, who.hash);
            auto const key = handle::from(s.key());
            key.retain();
            return key;
        });
    }
    void count_rejection(line_type const& l, error_code ec) noexcept {
        bool const is_counted = ec.category() == error_category() && ec != errc::unavailable;
        if (heavy_.is_on() && has_keys_ && is_counted)
            heavy_.reject(l.key, states_.hash_of(l.key), 1);
    }

    // Rules.

    /// Gives a key its own rule or, without one, the common rule. Throws `std::bad_alloc`, without an effect.
    void change_rule(line_type& l, shared_rule own, time_point now) {
        bool const stays = own != nullptr;
        auto const next = stays ? std::move(own) : states_.find(l.key).shared();
        adopt(l, next, under(*next, *l.rule, l.state_of_key, now));
        l.stays = stays;
    }
    /// Changes the rule of a page of keys, like `keyed_states`, and calls `changed(line)` for each line in it.
    template <class Changed>
    [[nodiscard]] std::uint64_t change_rule(versioned_rule const& next, std::uint64_t hash,
                                            time_point now, Changed changed) {
        auto const rule = states_.newest_of(next);
        std::vector<std::pair<line_type*, state>> lines;
        auto const prepare = [&](line_type& l) {
            lines.emplace_back(&l, under(*rule, *l.rule, l.state_of_key, now));
        };
        if (everyone_ && everyone_->rule != rule)
            prepare(*everyone_);
        auto const after = states_.change_rule(next, hash, now, [&](line_type& l) {
            if (!l.stays)
                prepare(l);
        });
        use_time_of(*rule);
        for (auto& [l, s] : lines) {
            adopt(*l, rule, std::move(s));
            changed(*l);
        }
        return after;
    }

    // Commands, if permits come from elsewhere.

    [[nodiscard]] bool is_unlimited() const noexcept
        requires is_fed
    {
        return states_.newest()->is_unlimited();
    }
    [[nodiscard]] bool elapse(time_point now) noexcept
        requires is_fed
    {
        return feed_.elapse(*states_.newest(), now);
    }
    [[nodiscard]] bool has_command() const noexcept { return feed_.has_command(); }
    [[nodiscard]] auto pop_command() noexcept { return feed_.pop_command(); }
    [[nodiscard]] auto& events() const noexcept { return states_.newest()->contact(); }

    time_point feed(slot const& s, demand const& d, time_point now) noexcept {
        return s ? feed_.feed(*s.rule_, *s.state_, d, now, [&] { return name_of(s.key()); })
                 : never;
    }
    void took(slot const& s, time_point now) noexcept {
        if (!s.line_)  // otherwise `rest` follows
            static_cast<void>(feed(s, {}, now));
    }
    void give_back(permit_origin from, amount n, time_point now) noexcept {
        auto const& rule = *states_.newest();
        if (Rule::comes_from_store(from.ticket))
            feed_.give_back(rule, rule.returned(n, from.ticket), now,
                            [&] { return name_of(from.key); });
    }
    /// Returns the slot of a command.
    [[nodiscard]] slot find(typename feed_type::name const& who) const noexcept
        requires is_fed
    {
        return who.key ? find(keyed_lookup<Key>{*who.key, who.hash}) : slot_of(*everyone_);
    }
    /// Records the reply to a question of a slot. Permits that it does not await are given back.
    void answered(slot const& s, typename feed_type::name const& who,
                  typename feed_type::question const& q, typename feed_type::answer const& a,
                  time_point sent, time_point now) noexcept
        requires is_fed
    {
        auto const& rule = s.rule();
        bool const is_awaited = s && rule.answered(*s.state_, q, a, sent, now);
        rule.contact().answered(q.number, a, sent, !is_awaited, now);
        if (!is_awaited && a.granted != 0)
            feed_.give_back(rule, rule.returned(a.granted, static_cast<ticket>(a.since)), now,
                            [&] { return who; });
    }
    /// Records that a question of a slot failed.
    void failed(slot const& s, typename feed_type::question const& q,
                typename feed_type::answer const& a, time_point now) noexcept
        requires is_fed
    {
        if (s)
            s.rule().failed(*s.state_, q);
        s.rule().contact().failed(q.number, a, now);
    }

    // States, to save and to restore them.

    /// Calls `f(key, rule, state)` for each key of the page at `hash` whose state differs from the state of an unused key, or
    /// which has its own rule. Returns the next page, or 0 after the last.
    template <class F>
    [[nodiscard]] std::uint64_t each_used(std::uint64_t hash, time_point now, F f) const {
        return states_.each_of_page(hash, [&](spot const& where) {
            auto const* const l = where.line();
            auto const& rule = l ? l->rule : where.shared();
            state const& s = l ? l->state_of_key : where.own_state();
            bool const is_common = !l || !l->stays;
            if (is_common && rule->are_alike(s, states_.unused_under(rule), now))
                return;
            f(where.key().key(), rule, s);
        });
    }
    /// The line that all share, or null.
    [[nodiscard]] line_type* everyone() const noexcept { return everyone_; }
    /// Calls `change(rule, state)` for a stored slot.
    template <class Change>
    void change_state(slot const& s, Change change) {
        [[maybe_unused]] heap_change<Rule> const noted(states_.heap(), *s.state_);
        change(s.line_ ? s.line_->rule : s.where_.shared(), *s.state_);
    }

private:
    [[nodiscard]] slot unused(std::uint64_t hash) const noexcept {
        return {states_.heap(), states_.rule_at(hash), states_.unused_at(hash)};
    }
    template <class Like>
    [[nodiscard]] bool store(slot& s, Like const& key, std::uint64_t hash,
                             time_point now) noexcept {
        auto const where = states_.insert(key, hash, now);
        if (where)
            s = slot(states_.heap(), where);
        return static_cast<bool>(where);
    }
    void adopt(line_type& l, shared_rule rule, state&& s) noexcept {
        use_time_of(*rule);
        l.rule = std::move(rule);
        [[maybe_unused]] heap_change<Rule> const noted(states_.heap(), l.state_of_key);
        l.state_of_key = std::move(s);
    }
    // The key may be text, which is copied.
    [[nodiscard]] auto name_of(std::uint64_t word) const {
        typename feed_type::name who;
        if (has_keys_) {
            auto const key = handle::from(word);
            who = {Key(key.key()), states_.hash_of(key)};
        }
        return who;
    }
    void use_time_of(Rule const& rule) noexcept {
        timed_ = timed_ || rule.timed();
        times_leave_ = times_leave_ || weir::times_leave(rule);
    }

    bool timed_;
    bool times_leave_;
    bool has_keys_;  // false if all share one line
    std::optional<time_point> begin_;
    std::shared_ptr<chain_core> next_;
    line_type* everyone_ = nullptr;
    states_type states_;
    heavy_keys<Key> heavy_;
    [[no_unique_address]] feed_type feed_;
};

}  // namespace weir::inline v0_2::detail
