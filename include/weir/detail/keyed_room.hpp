#pragma once

#include <weir/amount.hpp>
#include <weir/detail/any_queue.hpp>
#include <weir/detail/chain/member.hpp>
#include <weir/detail/gate.hpp>
#include <weir/detail/keyed/gate.hpp>
#include <weir/detail/keyed/heavy_keys.hpp>
#include <weir/detail/keyed/rooms.hpp>
#include <weir/detail/keyed/states.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/random.hpp>
#include <weir/detail/rejected.hpp>
#include <weir/detail/room/drains.hpp>
#include <weir/detail/room/pause.hpp>
#include <weir/detail/waiting_room.hpp>
#include <weir/detail/wakeup.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/policy/policy.hpp>
#include <weir/policy/rule.hpp>
#include <weir/queue_options.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>

#include <boost/asio/error.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace weir::detail {

template <class Rule, class Hash>
struct shard_options {
    std::shared_ptr<Rule const> rule;
    std::shared_ptr<keyed_bounds<Hash>> bounds;
    bool all_share_one = false;  // for all callers, with any key
    std::uint32_t heavy_keys = 0;
};

/// The rules of a limiter with a state for each of many keys. A pure state machine, driven like `waiting_room`. One
/// of its parts handles each event:
///
/// - `keyed_gate` handles a key that has only a state, in a table: `keyed_states`;
/// - the waiting room of the key handles a key with waiting requests or its own options: `keyed_rooms`;
/// - `drains` handles the operations that wait until all permits are released.
///
/// `heavy_keys` observes all requests.
template <class Key, class Hash, limiting_rule Rule, class Queue = any_queue>
class keyed_room {
    using rooms_type = keyed_rooms<Key, Rule, Queue>;
    using own_room = typename rooms_type::own_room;
    using own_policy = typename rooms_type::own_policy;
    using keyed_gate_type = keyed_gate<Key, Hash, Rule, own_room>;
    using states_type = typename keyed_gate_type::states_type;
    using shared_rule = typename states_type::shared_rule;
    using versioned_rule = typename states_type::versioned_rule;
    using state = typename states_type::state;
    using handle = typename states_type::handle;
    using spot = typename states_type::spot;
    using place = operation::place;
    using gate_type = gate<own_policy, gate_parts&>;
    using doors = typename gate_type::doors;

    // The location of a key: none, the table, or a room.
    struct whereabouts {
        spot where;
        own_room* room = nullptr;
    };

public:
    using options_type = shard_options<Rule, Hash>;

    keyed_room(permit_issuer& issuer, options_type const& options, queue_options const& queueing)
        : timed_(options.rule->timed()),
          times_leave_(times_leave(*options.rule)),
          of_gates_{issuer},
          gate_(issuer, options.rule, options.bounds, !options.all_share_one, of_gates_.pause),
          rooms_(of_gates_, queueing),
          heavy_(options.heavy_keys) {
        if (options.all_share_one) {
            everyone_ =
                &rooms_.open(handle::from(0), options.rule, options.rule->begin(time_point::min()));
            everyone_->stays = true;
        }
    }
    keyed_room(keyed_room const&) = delete;
    keyed_room& operator=(keyed_room const&) = delete;

    static void check(queue_options const& queueing) {
        static_assert(!std::same_as<Queue, shares_queue>,
                      "keyed limiters do not support the order shares");
        rooms_type::room_type::check(queueing);
        if (queueing.order == queue_order::shares)
            throw std::invalid_argument(
                "weir::queue_options: keyed limiters do not support the order shares");
    }
    static void check_change(queue_options const&, queue_options const& next) { check(next); }

    void begin(time_point now) noexcept {
        states().begin(now);
        if (everyone_)
            everyone_->room.begin(now);
    }

    [[nodiscard]] queue_options const& queueing() const noexcept { return parts().queueing; }

    // Events that need the time. For other events any time will do, and no clock is read.

    [[nodiscard]] bool needs_time_to_ask() const noexcept {
        return timed_ || parts().waiting() != 0 || pause().is_set();
    }
    [[nodiscard]] bool needs_time_to_tell() const noexcept { return timed_ || pause().is_set(); }
    [[nodiscard]] bool needs_time_to_leave() const noexcept {
        return times_leave_ || parts().waiting() != 0;
    }

    // Requests.

    template <class Like>
    [[nodiscard]] permit try_enter(request const& r, time_point now, error_code& ec,
                                   keyed_lookup<Like> const& who) noexcept {
        check_standing(r);
        help(now);
        auto at = find(who);
        if (at.room) [[unlikely]] {
            count(at.where, who);
            return in(*at.room, now, [&](auto& room) { return room.try_enter(r, now, ec); });
        }
        permit granted;
        auto const asked = ask(at.where, who, r.count(), r.max(), now, granted);
        count(at.where, who, !asked.granted);
        if (asked.granted) [[likely]] {
            ec = {};
            return granted;
        }
        ec = asked.rejected.value_or(errc::no_permit);
        gate_.counters().reject(ec);
        return permit_issuer::reject(rejection(at.where, who, ec, r.count(), asked.ready, now));
    }

    template <class Like>
    [[nodiscard]] permit enter_at_once(request const& r, time_point now, error_code& ec,
                                       keyed_lookup<Like> const& who) noexcept {
        ec = {};
        check_standing(r);
        help(now);
        auto at = find(who);
        if (at.room) [[unlikely]] {
            // An undecided request is passed to `decide`, which counts it.
            return in(*at.room, now, [&](auto& room) {
                auto granted = room.enter_at_once(r, now, ec);
                if (granted || ec)
                    count(at.where, who);
                return granted;
            });
        }
        permit granted;
        auto const asked = ask(at.where, who, r.count(), r.max(), now, granted);
        if (asked.granted || asked.rejected)
            count(at.where, who, !asked.granted);
        if (asked.rejected) {
            ec = *asked.rejected;
            gate_.counters().reject(ec);
            granted = permit_issuer::reject(rejection(at.where, who, ec, r.count(), unknown, now));
        }
        return granted;
    }

    template <class Like>
    [[nodiscard]] bool decide(operation& op, time_point now, keyed_lookup<Like> const& who) {
        if (op.cancelled)
            return reject(op, boost::asio::error::operation_aborted);
        check_standing(op.asked_for());
        help(now);
        auto at = find(who);
        if (!at.room) {
            auto const asked = ask(at.where, who, op.count, op.count + op.more, now, op.granted);
            if (asked.granted || asked.rejected)
                count(at.where, who, !asked.granted);
            if (asked.granted) {
                op.detach();
                return true;
            }
            if (asked.rejected) {
                op.granted = permit_issuer::reject(
                    rejection(at.where, who, *asked.rejected, op.count, unknown, now));
                return reject(op, *asked.rejected);
            }
            at.room = &open_room(at.where);
        }
        count(at.where, who);
        static_cast<keyed_operation&>(op).room = at.room;
        rooms_.tell(*at.room);
        bool const over = at.room->room.decide(op, now);
        if (over)
            note(*at.room, now);
        return over;
    }
    [[nodiscard]] bool cannot_wait(operation& op, wait_limit const& limit, time_point now) {
        auto& r = room_of(op);
        bool over = true;
        try {
            over = r.room.cannot_wait(op, limit, now);
        } catch (...) {
            note(r, now);
            throw;
        }
        if (over)
            note(r, now);
        return over;
    }
    void join(operation& op, time_point now) noexcept {
        room_of(op).room.join(op, now);
        note(room_of(op), now);
    }
    [[nodiscard]] static time_point turn_of_last(operation& op, time_point now) noexcept {
        return room_of(op).room.turn_of_last(op, now);
    }
    static void replace(operation& op, operation& by) noexcept {
        auto& r = room_of(op);
        static_cast<keyed_operation&>(by).room = &r;
        r.room.replace(op, by);
    }
    void withdraw(operation& op) noexcept {
        room_of(op).room.withdraw(op);
        note(room_of(op), now_);
    }
    bool evict(operation& op, time_point now) noexcept {
        bool const evicted = room_of(op).room.evict(op, now);
        if (evicted)
            note(room_of(op), now);
        return evicted;
    }

    [[nodiscard]] bool decide_drain(operation& op) noexcept {
        return drains_.decide(op, is_idle());
    }
    void join_drain(operation& op) noexcept { drains_.join(op, next_drain_++); }
    static void withdraw_other(operation& op) noexcept { observers::withdraw(op); }

    /// Takes `n` in any state. Returns an empty permit if the gate is not open, or if there is no space for a new key.
    template <class Like>
    [[nodiscard]] permit charge(amount n, time_point now, keyed_lookup<Like> const& who) {
        auto at = find(who);
        if (at.room)
            return in(*at.room, now, [&](auto& room) { return room.charge(n, now); });
        if (rooms_.door() != doors::open || !gate_.has_place(at.where, who.key, who.hash, now))
            return permit_issuer::reject(rejection(at.where, who, errc::closed, n, unknown, now));
        return gate_.take(at.where, n, now);
    }

    // Chains, with the contract of `chain_member`. A waiting chain has a room for its key.

    template <class Like>
    [[nodiscard]] chain_turn consider(chain_entry const& e, time_point now,
                                      keyed_lookup<Like> const& who) noexcept {
        auto at = e.room ? whereabouts{{}, room_of(e)} : find(who);
        if (at.room) {
            rooms_.tell(*at.room);
            return at.room->room.consider(e, now);
        }
        check_standing(e.asked_for());
        if (rooms_.door() != doors::open)
            return {.rejected = errc::closed};
        auto const asked = gate_.consider(at.where, who, e.count, now);
        if (asked.rejected)
            return {.rejected = *asked.rejected};
        return chain_turn::at(asked.granted, asked.ready, now);
    }
    template <class Like>
    [[nodiscard]] bool admit(chain_entry& e, time_point now,
                             keyed_lookup<Like> const& who) noexcept {
        auto at = e.room ? whereabouts{{}, room_of(e)} : find(who);
        if (at.room) {
            if (e.number == 0)
                count(at.where, who);
            return in(*at.room, now, [&](auto& room) { return room.admit(e, now); });
        }
        // Another key of the chain may have evicted this one.
        if (!gate_.has_place(at.where, who.key, who.hash, now))
            return false;
        count(at.where, who);
        e.granted = gate_.take(at.where, e.count, now);
        return true;
    }
    template <class Like>
    rejected reject(chain_entry const& e, error_code ec, duration ready_in, time_point now,
                    keyed_lookup<Like> const& who) noexcept {
        auto const at = e.room ? whereabouts{{}, room_of(e)} : find(who);
        if (at.room) {
            if (e.number == 0)
                count(at.where, who);
            return in(*at.room, now, [&](auto& room) { return room.reject(e, ec, ready_in, now); });
        }
        count(at.where, who, true);
        gate_.counters().reject(ec);
        auto what = rejection(at.where, who, ec, e.count, unknown, now);
        what.retry_after = parts().jitter.of(ready_in, queueing().jitter, now);
        return what;
    }
    template <class Like>
    [[nodiscard]] bool prepare(chain_entry& e, time_point now, keyed_lookup<Like> const& who) {
        auto at = find(who);
        if (!at.room && !gate_.has_place(at.where, who.key, who.hash, now))
            return false;
        count(at.where, who);
        auto& r = at.room ? *at.room : open_room(at.where);
        e.room = &r;
        rooms_.tell(r);
        return r.room.prepare(e, now);
    }
    [[nodiscard]] static bool has_place(chain_entry const& e, time_point now) noexcept {
        return room_of(e)->room.has_place(e, now);
    }
    void evict(chain_entry const& e, time_point now) noexcept {
        room_of(e)->room.evict(e, now);
        note(*room_of(e), now);
    }
    void enroll(chain_entry& e, time_point now) noexcept {
        room_of(e)->room.enroll(e, now);
        ++chains_;
        note(*room_of(e), now);
    }
    void strike(chain_entry& e) noexcept {
        if (!e.room)
            return;
        if (e.number != 0)
            --chains_;
        auto& r = *room_of(e);
        r.room.strike(e);
        e.room = nullptr;
        note(r, now_);
    }
    void stand(chain_entry& e) noexcept {
        room_of(e)->room.stand(e);
        note(*room_of(e), now_);
    }
    void step_out(chain_entry& e) noexcept {
        room_of(e)->room.step_out(e);
        note(*room_of(e), now_);
    }
    void look_again(chain_entry const& e) noexcept { note(*room_of(e), now_); }
    [[nodiscard]] static chain_line& chains(chain_entry const& e) noexcept {
        return room_of(e)->room.chains(e);
    }
    void set_alarm(chain_operation& op, time_point at) noexcept { parts().deadlines.move(op, at); }
    void complete(chain_operation& op) noexcept {
        home_of(op).room.complete(op);
        note(home_of(op), now_);
    }
    void take_calls(call_list& to) noexcept { to.append(parts().calls); }

    // Released permits. Each function returns whether this may concern other requests here.

    [[nodiscard]] bool leave(amount n, permit_origin from, time_point now) noexcept {
        if constexpr (ignores_leave<Rule>())
            gate_.comes_home(n, from);
        else if (auto const at = find(from); at.room)
            in(*at.room, now, [&](auto& room) { return room.leave(n, from, now); });
        else
            gate_.leave(at.where, n, from, now);
        return concerns_others();
    }
    [[nodiscard]] bool leave_unused(amount n, permit_origin from, time_point now) noexcept {
        static_cast<void>(refund(n, from, now));
        gate_.comes_home(0, from);
        return concerns_others();
    }
    [[nodiscard]] bool refund(amount n, permit_origin from, time_point now) noexcept {
        if (n == 0)
            return false;
        if (auto const at = find(from); at.room)
            in(*at.room, now, [&](auto& room) { return room.refund(n, from, now); });
        else
            gate_.refund(at.where, n, from, now);
        return parts().waiting() != 0;
    }
    [[nodiscard]] ticket overdraw(amount n, amount held, permit_origin from, time_point now) {
        auto const at = find(from);
        if (at.room)
            return in(*at.room, now, [&](auto& room) { return room.overdraw(n, held, from, now); });
        return gate_.overdraw(at.where, n, held, from, now);
    }
    void split(permit_origin from) noexcept { gate_.goes_out(0, handle::from(from.key)); }
    [[nodiscard]] ticket merge(permit_origin into, permit_origin from, amount n) noexcept {
        auto result = into.ticket;
        if (auto const at = find(into); n != 0 && at.room)
            result = at.room->room.policy().merge(into.ticket, from.ticket, n);
        else if (n != 0 && at.where)
            result = at.where.rule().merge(at.where.own_state(), into.ticket, from.ticket, n);
        gate_.comes_home(0, from);
        return result;
    }
    [[nodiscard]] ticket report(permit_origin from, outcome o) noexcept
        requires rule_hears_reports<Rule>
    {
        if (auto const at = find(from); at.room)
            return at.room->room.report(from, o);
        else if (at.where)
            return at.where.rule().report(at.where.own_state(), from.ticket, o);
        return from.ticket;
    }
    [[nodiscard]] amount remaining(permit_origin from, time_point now) const noexcept {
        return look(find(from), hash_of(from), [&](auto const& rule, auto const& s) {
            return pause().remaining(rule, now, s);
        });
    }

    [[nodiscard]] duration reset_after(permit_origin from, time_point now) const noexcept {
        return look(find(from), hash_of(from), [&](auto const& rule, auto const& s) {
            return pause().reset_after(rule, now, s);
        });
    }

    // Events that concern all keys: `settle` carries them out.

    void shut_down() noexcept { rooms_.shut(doors::no_newcomers); }
    void close() noexcept { rooms_.shut(doors::shut); }
    void cancel_all() noexcept {
        drains_.cancel_before(next_drain_);
        rooms_.cancel_all();
    }
    void abandon() noexcept {
        drains_.abandon();
        close();
    }
    void set_queueing(published<queue_options>::version const& next) noexcept {
        rooms_.set_queueing(next);
    }
    void pause_until(time_point end) noexcept {
        pause().extend(end);
        rooms_.reprice();
    }
    void resume() noexcept {
        pause().stop();
        rooms_.reprice();
    }

    // Events that concern one key.

    /// Cancels all waiting requests of the key.
    template <class Like>
    void cancel(keyed_lookup<Like> const& who, time_point now) noexcept {
        if (auto const at = find(who); at.room)
            in(*at.room, now, [](auto& room) { room.cancel_all(); });
    }

    /// Gives the key its own rule or, without one, the common rule. Returns false if there is no space for another
    /// key. Throws `std::bad_alloc`, and then changes nothing.
    template <class Like>
    [[nodiscard]] bool configure(keyed_lookup<Like> const& who, shared_rule own, time_point now) {
        auto at = find(who);
        if (!at.room) {
            if (!own && !at.where)
                return true;
            if (!gate_.has_place(at.where, who.key, who.hash, now))
                return false;
            if (!own)
                return true;
            at.room = &open_room(at.where);
        }
        bool const has = own != nullptr;
        try {
            change_rule(*at.room, under(has ? std::move(own) : shared_rule_of(*at.room),
                                        at.room->room.policy(), now));
        } catch (...) {
            note(*at.room, now);
            throw;
        }
        at.room->stays = has;
        timed_ = timed_ || at.room->room.policy().timed();
        times_leave_ = times_leave_ || times_leave(at.room->room.policy());
        note(*at.room, now);
        return true;
    }

    /// Applies `next`, or a newer rule that came meanwhile, to all keys of the page at `hash` without individual
    /// options, and to keys that join the page later. Returns the next page, or 0 after the last; see `keyed_states`.
    /// Throws `std::bad_alloc`; then earlier pages have changed, this page and later pages have not.
    [[nodiscard]] std::uint64_t configure(versioned_rule const& next, std::uint64_t hash,
                                          time_point now) {
        std::vector<std::pair<own_room*, own_policy>> rooms;
        auto const& rule = states().newest_of(next);
        auto const prepare = [&](own_room& r) {
            rooms.emplace_back(&r, under(rule, r.room.policy(), now));
        };
        if (everyone_ && &everyone_->room.policy().rule() != rule.get())
            prepare(*everyone_);
        auto const after = states().change_rule(next, hash, now, [&](own_room& r) {
            if (!r.stays)
                prepare(r);
        });
        timed_ = timed_ || rule->timed();
        times_leave_ = times_leave_ || times_leave(*rule);
        for (auto& [r, policy] : rooms) {
            change_rule(*r, std::move(policy));
            note(*r, now);
        }
        return after;
    }

    void cancel(operation& op, time_point now) noexcept {
        if (op.at == place::nowhere) {
            op.cancelled = true;
        } else if (op.at == place::chained) {
            auto& r = home_of(op);
            r.room.cancel(op, now);
            note(r, now);
        } else if (op.at == place::queue) {
            auto& r = room_of(op);
            r.room.cancel(op, now);
            note(r, now);
        } else {
            observers::cancel(op, parts().outbox);
        }
    }

    // Events without a call.

    void settle(time_point now, int& budget) noexcept {
        pause().elapse(now);
        for (; budget > 0; --budget) {
            own_room* const r = rooms_.untold();
            if (!r)
                break;
            rooms_.tell(*r);
            note(*r, now);
        }
        parts().deadlines.expire(now, budget, [&](operation& op) {
            auto& r = op.at == place::chained ? home_of(op) : room_of(op);
            rooms_.tell(r);
            r.room.expire(op, now);
            note(r, now);
        });
        for (; budget > 0 && rooms_.next_at() <= now; --budget) {
            auto& r = *rooms_.next();
            r.room.settle(now, budget);
            note(r, now);
        }
        drains_.sweep(budget, parts().outbox);
        drains_.serve(is_idle(), budget, parts().outbox);
    }

    [[nodiscard]] needs wants(time_point now, time_point last_alarm) noexcept {
        last_alarm_ = last_alarm;
        needs n;
        n.waiting = !is_empty();
        if (!n.waiting)
            return n;
        n.next = std::min(rooms_.next_at(), parts().deadlines.next());
        n.due = !parts().outbox.empty() || n.next <= now || (!are_empty() && rooms_.untold()) ||
                drains_.is_due(is_idle());
        return n;
    }

    [[nodiscard]] static bool perhaps_waiting() noexcept { return false; }
    [[nodiscard]] bool nobody_waits() const noexcept { return are_empty() && drains_.empty(); }
    [[nodiscard]] bool is_empty() const noexcept {
        return nobody_waits() && parts().outbox.empty();
    }
    [[nodiscard]] bool is_done() const noexcept { return is_empty(); }
    [[nodiscard]] std::uint64_t live() const noexcept { return gate_.live(); }
    [[nodiscard]] operation_list& outbox() noexcept { return parts().outbox; }

    void clear_out() noexcept {
        rooms_.clear_out();
        drains_.clear_out(parts().outbox);
    }

    /// Returns memory that is needed only while a request waits.
    [[nodiscard]] auto take_spare_memory() noexcept {
        return are_empty() ? parts().deadlines.take_memory() : nullptr;
    }

    /// Returns the sums over all keys; fields that have a meaning only for one key are 0.
    [[nodiscard]] limiter_stats stats(time_point now) const noexcept {
        auto result = gate_.stats();
        result.name = queueing().name;
        result.paused_for = pause().rest(now);
        result.waiting = parts().waiting();
        result.waiting_for = parts().waiting_for();
        return result;
    }
    [[nodiscard]] wait_histogram waits() const noexcept { return parts().waits.recorded(); }
    /// Returns the present state of one key; past decisions are not counted per key.
    template <class Like>
    [[nodiscard]] limiter_stats stats(keyed_lookup<Like> const& who,
                                      time_point now) const noexcept {
        auto const at = find(who);
        auto result = at.room ? at.room->room.stats(now) : limiter_stats();
        result.name = queueing().name;
        look(at, who.hash, [&](auto const& rule, auto const& s) {
            result.capacity = rule.capacity();
            result.remaining = pause().remaining(rule, now, s);
            if constexpr (requires { rule.debt(s, now); })
                result.debt = rule.debt(s, now);
            result.reset_after = if_known(pause().reset_after(rule, now, s));
            result.paused_for = pause().rest(now);
            return 0;
        });
        return result;
    }
    template <class Like>
    [[nodiscard]] typename Rule::options_type options(keyed_lookup<Like> const& who) const {
        return look(find(who), who.hash, [](auto const& rule, auto const&) {
            return typename Rule::options_type(rule.options());
        });
    }
    [[nodiscard]] std::size_t keys() const noexcept { return states().size(); }
    [[nodiscard]] std::size_t bytes() const noexcept { return states().bytes(); }

    [[nodiscard]] heavy_keys<Key> const& heavy() const noexcept { return heavy_; }

    template <class Like>
    [[nodiscard]] bool knows(keyed_lookup<Like> const& who) const noexcept {
        return static_cast<bool>(find(who).where);
    }
    /// Returns whether the key is in the table, after inserting it if there is space.
    template <class Like>
    [[nodiscard]] bool has_place(keyed_lookup<Like> const& who, time_point now) noexcept {
        auto at = find(who);
        return gate_.has_place(at.where, who.key, who.hash, now);
    }
    /// Prefetches the memory of the key, before a request for it.
    template <class Like>
    void expect(keyed_lookup<Like> const& who) const noexcept {
        states().prefetch(who.hash);
    }
    /// Prefetches the entry of the key at any place, since `expect` prefetches only one place. Call it after the memory
    /// of `expect` has arrived, for batches of keys.
    template <class Like>
    void expect_entry(keyed_lookup<Like> const& who) const noexcept {
        states().prefetch_entry(who.hash);
    }

    /// The maximum number of other requests' operations that a caller at the gate touches before its own request.
    static constexpr int help_budget = 16;

private:
    [[nodiscard]] common_parts& parts() noexcept { return rooms_.parts(); }
    [[nodiscard]] common_parts const& parts() const noexcept { return rooms_.parts(); }
    [[nodiscard]] detail::pause& pause() noexcept { return of_gates_.pause; }
    [[nodiscard]] detail::pause const& pause() const noexcept { return of_gates_.pause; }
    [[nodiscard]] states_type& states() noexcept { return gate_.states(); }
    [[nodiscard]] states_type const& states() const noexcept { return gate_.states(); }

    void check_standing(request const& r) const noexcept {
        rooms_type::room_type::check_standing(queueing(), r);
    }

    void help(time_point now) noexcept {
        if (parts().waiting() == 0) [[likely]]
            return pause().elapse(now);
        int budget = help_budget;
        settle(now, budget);
    }

    // Lookups.

    template <class Like>
    [[nodiscard]] whereabouts find(keyed_lookup<Like> const& who) const noexcept {
        if (everyone_) [[unlikely]]
            return {{}, everyone_};
        return whereabouts_of(states().find(who));
    }
    [[nodiscard]] whereabouts find(permit_origin from) const noexcept {
        if (everyone_) [[unlikely]]
            return {{}, everyone_};
        return whereabouts_of(states().find(handle::from(from.key)));
    }
    [[nodiscard]] static whereabouts whereabouts_of(spot where) noexcept {
        return {where, where ? where.room() : nullptr};
    }
    [[nodiscard]] std::uint64_t hash_of(permit_origin from) const noexcept {
        return everyone_ ? 0 : states().hash_of(handle::from(from.key));
    }
    // Returns the result of `f(rule, state)` for the key, or for a key that was never used.
    template <class F>
    auto look(whereabouts const& at, std::uint64_t hash, F f) const {
        if (at.room)
            return f(at.room->room.policy().rule(), at.room->room.policy().state());
        if (at.where)
            return f(at.where.rule(), std::as_const(at.where.own_state()));
        return f(states().rule_at(hash), states().unused_at(hash));
    }

    // Requests at the gate, for a key without a room.
    template <class Like>
    [[nodiscard]] typename gate_type::answer ask(spot& where, keyed_lookup<Like> const& who,
                                                 amount least, amount most, time_point now,
                                                 permit& granted) noexcept {
        if (rooms_.door() != doors::open) [[unlikely]]
            return {.rejected = errc::closed};
        return gate_.ask(where, who, least, most, now, granted);
    }

    // Returns what to report about the rejection of a request for a key without a room.
    template <class Like>
    [[nodiscard]] detail::rejected rejection(spot where, keyed_lookup<Like> const& who,
                                             error_code ec, amount n, time_point ready,
                                             time_point now) noexcept {
        if (ec == errc::exceeds_capacity)
            return {.by = queueing().name,
                    .requested = n,
                    .capacity = look({where}, who.hash, [](auto const& rule, auto const&) {
                        return rule.capacity();
                    })};
        return {.retry_after = gate_type::retry_after(
                    parts().jitter.after(ready, queueing().jitter, now), now),
                .by = queueing().name};
    }

    // Counts a request for the key. `rejected` tells whether it was rejected; if its room has not decided yet, the
    // room counts the rejection.
    template <class Like>
    void count(spot where, keyed_lookup<Like> const& who, bool rejected = false) noexcept {
        if (!heavy_.is_on()) [[likely]]
            return;
        heavy_.count(who.key, who.hash, rejected, [&] {
            if (!where)
                return handle::make(who.key, who.hash);
            where.key().retain();
            return where.key();
        });
    }

    [[nodiscard]] static std::uint64_t rejections(limiter_stats const& done) noexcept {
        return done.no_permit + done.timed_out + done.deadline_unreachable + done.queue_full +
               done.shed + done.exceeds_capacity + done.closed;
    }

    // Rooms.

    // Returns whether no request waits in any room.
    [[nodiscard]] bool are_empty() const noexcept { return parts().waiting() == 0 && chains_ == 0; }
    [[nodiscard]] static own_room* room_of(chain_entry const& e) noexcept {
        return static_cast<own_room*>(e.room);
    }
    [[nodiscard]] static own_room& room_of(operation& op) noexcept {
        return *static_cast<own_room*>(static_cast<keyed_operation&>(op).room);
    }
    [[nodiscard]] static own_room& home_of(operation& chain) noexcept {
        return *room_of(*static_cast<chain_operation&>(chain).at_home);
    }
    [[nodiscard]] own_room& open_room(spot where) {
        auto& r = rooms_.open(where.key(), where.shared(), std::move(where.own_state()));
        where.put(r);
        return r;
    }
    template <class F>
    auto in(own_room& r, time_point now, F f) {
        rooms_.tell(r);
        if constexpr (std::is_void_v<decltype(f(r.room))>) {
            f(r.room);
            note(r, now);
        } else {
            try {
                auto result = f(r.room);
                note(r, now);
                return result;
            } catch (...) {
                note(r, now);
                throw;
            }
        }
    }
    // Updates the totals after an event in the room, and closes the room if it is no longer needed.
    void note(own_room& r, time_point now) noexcept {
        now_ = now;
        auto const news = rooms_.take_counts();
        gate_.add(news, r.key());
        if (heavy_.is_on() && !everyone_)
            heavy_.reject(r.key(), states().hash_of(r.key()), rejections(news.done));
        if (r.stays || !r.room.nobody_waits())
            rooms_.schedule(r, now, last_alarm_);
        else
            states().find(r.key()).put(rooms_.close(r));
    }
    // Changes of rules.

    [[nodiscard]] shared_rule const& shared_rule_of(own_room const& r) const noexcept {
        return states().find(r.key()).shared();
    }
    [[nodiscard]] static own_policy under(shared_rule rule, own_policy const& before,
                                          time_point now) {
        auto next = detail::under(*rule, before.rule(), before.state(), now);
        return {std::move(rule), std::move(next)};
    }
    static void change_rule(own_room& r, own_policy&& next) noexcept {
        std::ranges::swap(next, r.room.policy());
        r.room.reprice();
    }

    // Returns true, since the operation is over.
    bool reject(operation& op, error_code ec) noexcept {
        gate_.counters().reject(ec);
        op.end(ec);
        return true;
    }

    [[nodiscard]] bool is_idle() const noexcept { return gate_.live() == 0 && are_empty(); }
    [[nodiscard]] bool concerns_others() const noexcept {
        return parts().waiting() != 0 || (!drains_.empty() && is_idle());
    }

    bool timed_;
    bool times_leave_;
    gate_parts of_gates_;
    keyed_gate_type gate_;
    rooms_type rooms_;
    own_room* everyone_ = nullptr;  // the common room, if all keys share one
    drains drains_;
    std::uint64_t next_drain_ = 1;
    heavy_keys<Key> heavy_;
    std::uint64_t chains_ = 0;  // waiting entries of chains
    time_point now_{};
    time_point last_alarm_ = time_point::min();
};

}  // namespace weir::detail
