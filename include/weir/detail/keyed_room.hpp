#pragma once

#include <weir/amount.hpp>
#include <weir/detail/counters.hpp>
#include <weir/detail/fifo.hpp>
#include <weir/detail/gate.hpp>
#include <weir/detail/key_handle.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/paged_table.hpp>
#include <weir/detail/waiting_room.hpp>
#include <weir/detail/wakeup.hpp>
#include <weir/error.hpp>
#include <weir/key_hash.hpp>
#include <weir/permit.hpp>
#include <weir/policy/policy.hpp>
#include <weir/policy/rule.hpp>
#include <weir/queue_options.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>

#include <boost/asio/error.hpp>
#include <boost/intrusive/set.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace weir::detail {

/// A key to be looked up, of any type that compares with the keys, and its hash.
template <class Like>
struct keyed_lookup {
    std::conditional_t<small_key<Like>, Like, Like const&> key;
    std::uint64_t hash;
};

/// An operation that waits for permits of one key.
class keyed_operation : public operation {
public:
    void* room = nullptr;  // that of the key

protected:
    keyed_operation() = default;
    ~keyed_operation() = default;
};

/// What the parts of one keyed limiter share.
template <class Hash>
struct keyed_bounds {
    keyed_bounds(Hash h, hash_seed const& s, std::size_t most)
        : hash_of(std::move(h)), seed(s), most_keys(most) {}

    Hash hash_of;
    hash_seed seed;
    std::size_t most_keys;
    std::atomic<std::size_t> keys = 0;

    template <class Like>
    [[nodiscard]] std::uint64_t hash(Like const& key) const noexcept {
        return hash_of(seed, key);
    }
    [[nodiscard]] bool is_full() const noexcept {
        return keys.load(std::memory_order_relaxed) >= most_keys;
    }
};

template <class Rule, class Hash>
struct shard_options {
    std::shared_ptr<Rule const> rule;
    std::shared_ptr<keyed_bounds<Hash>> bounds;
    bool all_share_one = false;  // whoever comes, with whatever key
};

/// The rules of a limiter with a state for each of many keys: a table of states, and a waiting room for each
/// key for which somebody waits or which has options of its own. A pure state machine, to be driven like
/// `waiting_room`.
///
/// A key that is not in the table has the state of one that was never used, which began when the limiter was
/// made. A key can be forgotten when it has become like that again; a few are looked at whenever a new key
/// comes.
template <class Key, class Hash, limiting_rule Rule, class Queue = fifo>
class keyed_room {
    using shared_rule = std::shared_ptr<Rule const>;
    using state = typename Rule::state_type;
    using own_policy = policy::ruled<Rule, shared_rule>;
    using handle = key_handle<Key>;
    using place = operation::place;
    using gate_type = gate<own_policy>;
    using doors = typename gate_type::doors;

    struct in_rooms;
    using due_hook =
        boost::intrusive::set_base_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>>;

    // The waiting room of one key, to which its state has moved.
    struct own_room : list_hook<in_rooms>, due_hook {
        own_room(keyed_room& all, handle k, shared_rule rule, state&& s) noexcept
            : key(k),
              epoch(all.epoch_),
              cancels(all.cancels_),
              room(all.issuer_, own_policy(std::move(rule), std::move(s)), all.queueing_,
                   k.word()) {}

        handle key;
        bool has_own_options = false;
        bool is_scheduled = false;
        time_point at{};            // when there is something to do in it, if it is scheduled
        std::uint64_t epoch;        // the last event for all keys that it has been told of
        std::uint64_t cancels;      // and the last `cancel_all`
        std::uint64_t waiting = 0;  // as the books say
        amount waiting_for = 0;
        waiting_room<own_policy, Queue> room;

        friend bool operator<(own_room const& a, own_room const& b) noexcept { return a.at < b.at; }
    };

    // The state of a key, or, if the entry is marked, its room.
    class entry {
    public:
        entry(handle k, state&& s) noexcept : key(k), what_(std::move(s)) {}

        [[nodiscard]] state& own_state() noexcept { return what_.of_key; }
        [[nodiscard]] state const& own_state() const noexcept { return what_.of_key; }
        [[nodiscard]] own_room& waiting_room() const noexcept { return *what_.room; }
        void put(state&& s) noexcept { what_.of_key = std::move(s); }
        void put(own_room& r) noexcept { what_.room = &r; }

        handle key;

    private:
        union either {
            explicit either(state&& s) noexcept : of_key(std::move(s)) {}
            state of_key;
            own_room* room;
        };
        struct both {
            explicit both(state&& s) noexcept : of_key(std::move(s)) {}
            state of_key;
            own_room* room = nullptr;
        };
        std::conditional_t<std::is_trivially_copyable_v<state>, either, both> what_;
    };

    using table_type = paged_table<entry, shared_rule>;
    struct spot : table_type::spot {
        [[nodiscard]] Rule const& rule() const noexcept { return *this->in->header; }
    };

    // Where a key is: nowhere, in the table, or in a room.
    struct whereabouts {
        spot where;
        own_room* room = nullptr;
    };

public:
    using options_type = shard_options<Rule, Hash>;

    keyed_room(permit_issuer& issuer, options_type const& options, queue_options const& queueing)
        : issuer_(issuer),
          bounds_(options.bounds),
          rule_(options.rule),
          queueing_(queueing),
          timed_(rule_->timed()),
          unused_(rule_->begin(time_point::min())),
          table_(rule_) {
        if (options.all_share_one)
            everyone_ = std::make_unique<own_room>(*this, handle::from(0), rule_, state(unused_));
    }
    keyed_room(keyed_room const&) = delete;
    keyed_room& operator=(keyed_room const&) = delete;
    ~keyed_room() {
        table_.for_each_page([](auto& page) {
            for (auto rest = page.used(); rest != 0; rest &= rest - 1) {
                auto const i = static_cast<unsigned>(std::countr_zero(rest));
                if (page.is_marked(i))
                    delete &page.at(i).waiting_room();
                page.at(i).key.release();
            }
        });
    }

    void begin(time_point now) noexcept {
        if constexpr (std::is_trivially_copyable_v<state>)
            unused_ = rule_->begin(now);
        else
            rule_->restart(unused_, now);
        if (everyone_)
            everyone_->room.begin(now);
    }

    [[nodiscard]] queue_options const& queueing() const noexcept { return queueing_; }

    // What needs the time. Where it is not needed any time will do, and no clock is read.

    [[nodiscard]] bool needs_time_to_ask() const noexcept { return timed_ || waiting_ != 0; }
    [[nodiscard]] bool needs_time_to_tell() const noexcept { return timed_; }
    [[nodiscard]] bool needs_time_to_leave() const noexcept { return waiting_ != 0; }

    // Requests.

    template <class Like>
    [[nodiscard]] permit try_enter(amount n, time_point now, error_code& ec,
                                   keyed_lookup<Like> const& who) noexcept {
        help(now);
        auto at = find(who);
        if (at.room) [[unlikely]]
            return in(*at.room, now, [&](auto& room) { return room.try_enter(n, now, ec); });
        permit granted;
        auto const asked = ask(at.where, who, n, now, granted);
        if (asked.granted) [[likely]] {
            ec = {};
            return granted;
        }
        ec = asked.refused.value_or(errc::limited);
        counters_.refuse(ec);
        return gate_type::refuse(asked.ready, now);
    }

    template <class Like>
    [[nodiscard]] permit enter_at_once(amount n, time_point now, error_code& ec,
                                       keyed_lookup<Like> const& who) noexcept {
        ec = {};
        help(now);
        auto at = find(who);
        if (at.room) [[unlikely]]
            return in(*at.room, now, [&](auto& room) { return room.enter_at_once(n, now, ec); });
        permit granted;
        auto const asked = ask(at.where, who, n, now, granted);
        if (asked.refused) {
            ec = *asked.refused;
            counters_.refuse(ec);
        }
        return granted;
    }

    template <class Like>
    [[nodiscard]] bool decide(operation& op, time_point now, keyed_lookup<Like> const& who) {
        if (op.cancelled)
            return refuse(op, boost::asio::error::operation_aborted);
        help(now);
        auto at = find(who);
        if (!at.room) {
            auto const asked = ask(at.where, who, op.count, now, op.granted);
            if (asked.granted) {
                detach(op);
                return true;
            }
            if (asked.refused)
                return refuse(op, *asked.refused);
            at.room = &open_room(at.where);
        }
        static_cast<keyed_operation&>(op).room = at.room;
        tell(*at.room);
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
        if (op.cancelled)
            return end(op, boost::asio::error::operation_aborted);
        return (gone_ && end(op, errc::closed)) || (is_idle() && end(op, {}));
    }
    void join_drain(operation& op) noexcept {
        op.number = next_number_++;
        op.at = place::draining;
        draining_.push_back(op);
    }
    static void withdraw_other(operation& op) noexcept {
        unlink(op);
        op.number = 0;
        op.at = place::nowhere;
    }

    /// Takes `n` whatever the state; an empty permit if the doors are not open, or if there is no place for
    /// a new key.
    template <class Like>
    [[nodiscard]] permit charge(amount n, time_point now, keyed_lookup<Like> const& who) {
        auto at = find(who);
        if (at.room)
            return in(*at.room, now, [&](auto& room) { return room.charge(n, now); });
        if (doors_ != doors::open || !(at.where || (at.where = insert(who.key, who.hash, now))))
            return gate_type::refuse(unknown, now);
        auto taken = take(at.where, n, now);
        counters_.grant_at_once(n);
        return taken;
    }

    // Permits that come home: whether somebody here may have to be told.

    [[nodiscard]] bool leave(amount n, permit_origin from, time_point now) noexcept {
        if constexpr (!ignores_leave<Rule>()) {
            if (auto const at = find(from); at.room) {
                in(*at.room, now, [&](auto& room) { return room.leave(n, from, now); });
                return concerns_others();
            } else if (n != 0 && at.where) {
                at.where.rule().leave(at.where.entry().own_state(), n, from.ticket);
            }
        }
        come_home(n, from);
        return concerns_others();
    }
    [[nodiscard]] bool leave_unused(amount n, permit_origin from, time_point now) noexcept {
        static_cast<void>(refund(n, from, now));
        come_home(0, from);
        return concerns_others();
    }
    [[nodiscard]] bool refund(amount n, permit_origin from, time_point now) noexcept {
        if (n == 0)
            return false;
        auto at = find(from);
        if (at.room) {
            in(*at.room, now, [&](auto& room) { return room.refund(n, from, now); });
        } else {
            // A key that was forgotten may still get something back.
            auto const key = handle::from(from.key);
            if (at.where || (at.where = insert(key.key(), hash_of(key), now)))
                at.where.rule().refund(at.where.entry().own_state(), n, from.ticket, now);
            out_ -= static_cast<std::uint64_t>(n);
        }
        return waiting_ != 0;
    }
    /// Throws `std::length_error` if the key has been forgotten, and there is no place for it any more.
    [[nodiscard]] ticket overdraw(amount n, amount held, permit_origin from, time_point now) {
        auto at = find(from);
        if (at.room)
            return in(*at.room, now, [&](auto& room) { return room.overdraw(n, held, from, now); });
        auto const key = handle::from(from.key);
        if (!at.where && !(at.where = insert(key.key(), hash_of(key), now)))
            throw std::length_error("weir::keyed: no place for one key more");
        auto& s = at.where.entry().own_state();
        auto const extra = at.where.rule().take(s, n, now);
        out_ += static_cast<std::uint64_t>(n);
        return held == 0 ? extra : at.where.rule().merge(s, from.ticket, extra, n);
    }
    void split(permit_origin from) noexcept { go_out(0, handle::from(from.key)); }
    [[nodiscard]] ticket merge(permit_origin into, permit_origin from, amount n) noexcept {
        auto result = into.ticket;
        if (auto const at = find(into); n != 0 && at.room)
            result = at.room->room.policy().merge(into.ticket, from.ticket, n);
        else if (n != 0 && at.where)
            result =
                at.where.rule().merge(at.where.entry().own_state(), into.ticket, from.ticket, n);
        come_home(0, from);
        return result;
    }
    [[nodiscard]] amount remaining(permit_origin from, time_point now) const noexcept {
        return look(find(from), hash_of(from),
                    [&](auto const& rule, auto const& s) { return rule.remaining(s, now); });
    }

    // Events that concern all keys: `settle` carries them out.

    void shut_down() noexcept { shut(doors::no_newcomers); }
    void close() noexcept { shut(doors::shut); }
    void cancel_all() noexcept {
        cancel_before_ = next_number_;
        ++cancels_;
        ++epoch_;
    }
    void abandon() noexcept {
        gone_ = true;
        close();
    }
    void set_queueing(queue_options const& next) noexcept {
        queueing_ = next;
        ++epoch_;
    }

    // Events that concern one key.

    /// Cancels all that wait for it.
    template <class Like>
    void cancel(keyed_lookup<Like> const& who, time_point now) noexcept {
        if (auto const at = find(who); at.room)
            in(*at.room, now, [](auto& room) { room.cancel_all(); });
    }

    /// Gives it a rule of its own, or, without one, that of the others. False if there is no place for one
    /// key more. Throws `std::bad_alloc`, changing nothing.
    template <class Like>
    [[nodiscard]] bool configure(keyed_lookup<Like> const& who, shared_rule own, time_point now) {
        auto at = find(who);
        if (!at.room) {
            if (!own && !at.where)
                return true;
            if (!at.where && !(at.where = insert(who.key, who.hash, now)))
                return false;
            if (!own)
                return true;
            at.room = &open_room(at.where);
        }
        bool const has = own != nullptr;
        try {
            change_rule(*at.room, under(has ? std::move(own) : rule_of(*at.room),
                                        at.room->room.policy(), now));
        } catch (...) {
            note(*at.room, now);
            throw;
        }
        at.room->has_own_options = has;
        timed_ = timed_ || at.room->room.policy().timed();
        note(*at.room, now);
        return true;
    }

    /// Has all keys of the page at `hash` that have no options of their own go on with `rule`, and so those
    /// that come to it from now on. The next page, or 0 if that was the last. Throws `std::bad_alloc`; then
    /// pages before have changed, this one and those after have not.
    [[nodiscard]] std::uint64_t configure(shared_rule const& rule, std::uint64_t hash,
                                          time_point now) {
        // What may throw comes first, and changes nothing.
        auto& page = table_.page_of(hash);
        std::vector<state> states;
        std::vector<std::pair<own_room*, own_policy>> rooms;
        if (rule_ != rule) {
            states.push_back(under(*rule, *rule_, unused_, now));
            earlier_.reserve(earlier_.size() + 1);
        }
        if (everyone_)
            rooms.emplace_back(everyone_.get(), under(rule, everyone_->room.policy(), now));
        for (auto rest = page.used(); rest != 0; rest &= rest - 1) {
            auto const i = static_cast<unsigned>(std::countr_zero(rest));
            if (!page.is_marked(i))
                states.push_back(under(*rule, *page.header, page.at(i).own_state(), now));
            else if (auto& r = page.at(i).waiting_room(); !r.has_own_options)
                rooms.emplace_back(&r, under(rule, r.room.policy(), now));
        }

        timed_ = timed_ || rule->timed();
        auto next = states.begin();
        if (rule_ != rule)
            earlier_.push_back(
                {std::exchange(rule_, rule), std::exchange(unused_, std::move(*next++))});
        page.header = rule;
        for (auto rest = page.used(); rest != 0; rest &= rest - 1) {
            auto const i = static_cast<unsigned>(std::countr_zero(rest));
            if (!page.is_marked(i))
                page.at(i).put(std::move(*next++));
        }
        for (auto& [r, policy] : rooms)
            change_rule(*r, std::move(policy));
        for (auto& [r, policy] : rooms)
            note(*r, now);
        auto const after = table_.after(hash);
        if (after == 0)
            earlier_.clear();
        return after;
    }

    void cancel(operation& op, time_point now) noexcept {
        if (op.at == place::nowhere) {
            op.cancelled = true;
        } else if (op.at == place::queue) {
            auto& r = room_of(op);
            r.room.cancel(op, now);
            note(r, now);
        } else {
            take_out(op, boost::asio::error::operation_aborted);
        }
    }

    static void detach(operation& op) noexcept {
        if (op.canceller)
            std::exchange(op.canceller, nullptr)->target = nullptr;
    }

    // What happens by itself.

    void settle(time_point now, int& budget) noexcept {
        for (; budget > 0 && is_somebody_untold(); --budget) {
            auto& r = everyone_ ? *everyone_ : rooms_.front();
            tell(r);
            note(r, now);
        }
        for (; budget > 0 && !due_.empty() && due_.begin()->at <= now; --budget) {
            auto& r = *due_.begin();
            r.room.settle(now, budget);
            note(r, now);
        }
        for (; budget > 0 && !draining_.empty(); --budget) {
            operation& op = draining_.front();
            if (gone_)
                take_out(op, errc::closed);
            else if (op.number < cancel_before_)
                take_out(op, boost::asio::error::operation_aborted);
            else if (is_idle())
                take_out(op, {});
            else
                break;
        }
    }

    [[nodiscard]] needs wants(time_point now, time_point last_alarm) noexcept {
        last_alarm_ = last_alarm;
        needs n;
        n.waiting = !is_empty();
        if (!n.waiting)
            return n;
        n.next = due_.empty() ? never : due_.begin()->at;
        n.due = !outbox_.empty() || n.next <= now || (waiting_ != 0 && is_somebody_untold()) ||
                (!draining_.empty() &&
                 (gone_ || draining_.front().number < cancel_before_ || is_idle()));
        return n;
    }

    [[nodiscard]] static bool perhaps_waiting() noexcept { return false; }
    [[nodiscard]] bool nobody_waits() const noexcept { return waiting_ == 0 && draining_.empty(); }
    [[nodiscard]] bool is_empty() const noexcept { return nobody_waits() && outbox_.empty(); }
    [[nodiscard]] std::uint64_t live() const noexcept { return live_; }
    [[nodiscard]] operation_list& outbox() noexcept { return outbox_; }

    void clear_out() noexcept {
        gone_ = true;
        doors_ = doors::shut;
        if (everyone_)
            clear_out(*everyone_);
        for (auto* r = rooms_.empty() ? nullptr : &rooms_.front(); r; r = rooms_.after(*r))
            clear_out(*r);
        while (!draining_.empty())
            take_out(draining_.front(), {});
    }

    [[nodiscard]] static std::unique_ptr<char> take_spare_memory() noexcept { return nullptr; }

    /// Of all keys: what is the same for one only is 0.
    [[nodiscard]] limiter_stats stats(time_point) const noexcept {
        auto result = counters_.done();
        result.live = live_;
        result.in_use = static_cast<amount>(out_);
        result.waiting = waiting_;
        result.waiting_for = waiting_for_;
        return result;
    }
    /// Of one key, as it is now: what has been done is not known for one.
    template <class Like>
    [[nodiscard]] limiter_stats stats(keyed_lookup<Like> const& who,
                                      time_point now) const noexcept {
        auto const at = find(who);
        auto result = at.room ? at.room->room.stats(now) : limiter_stats();
        look(at, who.hash, [&](auto const& rule, auto const& s) {
            result.capacity = rule.capacity();
            result.remaining = rule.remaining(s, now);
            if constexpr (requires { rule.debt(s, now); })
                result.debt = rule.debt(s, now);
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
    [[nodiscard]] std::size_t keys() const noexcept { return table_.size(); }
    [[nodiscard]] std::size_t bytes() const noexcept { return table_.bytes(); }

    template <class Like>
    [[nodiscard]] bool knows(keyed_lookup<Like> const& who) const noexcept {
        return static_cast<bool>(find(who).where);
    }
    /// Ask for the memory of a key: first for what it is searched by, then for the entry.
    void prefetch(std::uint64_t hash) const noexcept { table_.prefetch(hash); }
    void prefetch_entry(std::uint64_t hash) const noexcept { table_.prefetch_entry(hash); }

    /// How many operations a caller at the gate touches for others, before its own request.
    static constexpr int help_budget = 16;

private:
    // How many places are looked at for keys to be forgotten, when a new one comes.
    static constexpr unsigned places_to_tidy = 8;

    void help(time_point now) noexcept {
        if (waiting_ == 0) [[likely]]
            return;
        int budget = help_budget;
        settle(now, budget);
    }

    // Looking up.

    [[nodiscard]] std::uint64_t hash_of(handle key) const noexcept {
        return key.hash([&](auto const& k) { return bounds_->hash(k); });
    }
    [[nodiscard]] std::uint64_t hash_of(permit_origin from) const noexcept {
        return everyone_ ? 0 : hash_of(handle::from(from.key));
    }
    template <class Like>
    [[nodiscard]] whereabouts find(keyed_lookup<Like> const& who) const noexcept {
        return find_if(who.hash, [&](entry const& e) { return e.key.key() == who.key; });
    }
    [[nodiscard]] whereabouts find(permit_origin from) const noexcept {
        return find_if(hash_of(from), [&](entry const& e) { return e.key.word() == from.key; });
    }
    template <class Predicate>
    [[nodiscard]] whereabouts find_if(std::uint64_t hash, Predicate is_it) const noexcept {
        if (everyone_) [[unlikely]]
            return {{}, everyone_.get()};
        spot const where{table_.find(hash, is_it)};
        if (where && where.is_marked()) [[unlikely]]
            return {where, &where.entry().waiting_room()};
        return {where, nullptr};
    }
    // What `f(rule, state)` returns for the key, or for one that was never used.
    template <class F>
    auto look(whereabouts const& at, std::uint64_t hash, F f) const {
        if (at.room)
            return f(at.room->room.policy().rule(), at.room->room.policy().state());
        if (at.where)
            return f(at.where.rule(), std::as_const(at.where.entry()).own_state());
        auto const& rule = table_.page_of(hash).header;
        return f(*rule, unused(rule));
    }

    // A new key; nowhere if there is no place or no memory for it.
    template <class Like>
    [[nodiscard]] spot insert(Like const& key, std::uint64_t hash, time_point now) noexcept {
        forget_some(now);
        if (!claim_place(now))
            return {};
        std::optional<handle> made;
        try {
            made = handle::make(key, hash);
            spot const where{
                table_.make_room(hash, [&](entry const& e) { return hash_of(e.key); })};
            if (where) {
                table_.insert(where, hash, entry(*made, state(unused(where.in->header))));
                return where;
            }
        } catch (...) {}
        if (made)
            made->release();
        bounds_->keys.fetch_sub(1, std::memory_order_relaxed);
        return {};
    }
    [[nodiscard]] bool claim_place(time_point now) noexcept {
        auto& keys = bounds_->keys;
        for (auto more = 2 * table_type::places / places_to_tidy;; --more) {
            if (keys.fetch_add(1, std::memory_order_relaxed) < bounds_->most_keys)
                return true;
            keys.fetch_sub(1, std::memory_order_relaxed);
            if (more == 0 || table_.size() == 0)
                return false;
            forget_some(now);
        }
    }
    void forget_some(time_point now) noexcept {
        auto& page = table_.page_of(hand_);
        for (auto const end = hand_place_ + places_to_tidy; hand_place_ != end; ++hand_place_) {
            bool const used = (page.used() >> hand_place_ & 1) != 0;
            if (!used || page.is_marked(hand_place_))
                continue;
            entry& e = page.at(hand_place_);
            if (!page.header->are_alike(std::as_const(e).own_state(), unused(page.header), now))
                continue;
            e.key.release();
            table_.erase({&page, hand_place_});
            bounds_->keys.fetch_sub(1, std::memory_order_relaxed);
        }
        if (hand_place_ < table_type::places)
            return;
        hand_place_ = 0;
        table_.tidy(hand_, [](auto const& a, auto const& b) { return a.header == b.header; });
        hand_ = table_.after(hand_);
    }

    // The state that keys have which are not in the table, on a page with this rule. While options change
    // page by page, some have an earlier rule.
    [[nodiscard]] state const& unused(shared_rule const& rule) const noexcept {
        for (auto const& e : earlier_) {
            if (e.rule == rule)
                return e.unused;
        }
        return unused_;
    }

    // Grants, without a room.

    template <class Like>
    [[nodiscard]] typename gate_type::answer ask(spot& where, keyed_lookup<Like> const& who,
                                                 amount n, time_point now,
                                                 permit& granted) noexcept {
        if (doors_ != doors::open) [[unlikely]]
            return {.refused = errc::closed};
        if (n != 0 && n > (where ? where.in : &table_.page_of(who.hash))->header->capacity())
            [[unlikely]]
            return {.refused = errc::exceeds_capacity};
        if (!where && !(where = insert(who.key, who.hash, now))) [[unlikely]]
            return {.refused = errc::too_many_keys};
        auto const ready =
            n == 0 ? now : where.rule().ready_at(where.entry().own_state(), n, 0, now);
        if (ready > now)
            return {.ready = ready};
        granted = take(where, n, now);
        counters_.grant_at_once(n);
        return {.granted = true, .ready = ready};
    }
    [[nodiscard]] permit take(spot where, amount n, time_point now) {
        entry& e = where.entry();
        auto const t = n == 0 ? ticket() : where.rule().take(e.own_state(), n, now);
        go_out(n, e.key);
        return permit_issuer::grant(
            issuer_, n, {.ticket = t, .key = e.key.word()}, duration::zero());
    }
    // A permit for `n` goes out, or comes home.
    void go_out(amount n, handle key) noexcept {
        ++live_;
        out_ += static_cast<std::uint64_t>(n);
        if (!everyone_)
            key.retain();
    }
    void come_home(amount n, permit_origin from) noexcept {
        --live_;
        out_ -= static_cast<std::uint64_t>(n);
        if (!everyone_)
            handle::from(from.key).release();
    }

    // Rooms.

    [[nodiscard]] static own_room& room_of(operation& op) noexcept {
        return *static_cast<own_room*>(static_cast<keyed_operation&>(op).room);
    }
    [[nodiscard]] own_room& open_room(spot where) {
        entry& e = where.entry();
        // The state is moved when there is memory for the room.
        auto r =
            std::make_unique<own_room>(*this, e.key, where.in->header, std::move(e.own_state()));
        tell_of_doors(*r);
        rooms_.push_back(*r);
        e.put(*r);
        where.mark(true);
        return *r.release();
    }
    void close_room(own_room& r) noexcept {
        auto const at = find({.key = r.key.word()});
        at.where.entry().put(r.room.policy().take_state());
        at.where.mark(false);
        if (r.is_scheduled)
            due_.erase(due_.iterator_to(r));
        static_cast<list_hook<in_rooms>&>(r).unlink();
        delete &r;
    }
    template <class F>
    auto in(own_room& r, time_point now, F f) {
        tell(r);
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
    // Of the events for all keys that it has not been told of yet.
    void tell(own_room& r) noexcept {
        if (r.epoch == epoch_)
            return;
        r.epoch = epoch_;
        r.room.set_queueing(queueing_);
        tell_of_doors(r);
        if (r.cancels != cancels_)
            r.room.cancel_all();
        r.cancels = cancels_;
        if (&r == everyone_.get())
            return;
        static_cast<list_hook<in_rooms>&>(r).unlink();
        rooms_.push_back(r);
    }
    void tell_of_doors(own_room& r) const noexcept {
        if (doors_ == doors::shut)
            r.room.close();
        else if (doors_ == doors::no_newcomers)
            r.room.shut_down();
    }
    [[nodiscard]] bool is_somebody_untold() const noexcept {
        return everyone_ ? everyone_->epoch != epoch_
                         : !rooms_.empty() && rooms_.front().epoch != epoch_;
    }
    // After anything has happened in it: keeps the books, and closes it if nobody needs it.
    void note(own_room& r, time_point now) noexcept {
        now_ = now;
        outbox_.append(r.room.outbox());
        auto const news = r.room.take_books();
        counters_.add(news.done);
        live_ += news.live;
        out_ += news.out;
        count_handles(r.key, static_cast<std::int64_t>(news.live));
        waiting_ += r.room.waiting() - std::exchange(r.waiting, r.room.waiting());
        waiting_for_ += r.room.waiting_for() - std::exchange(r.waiting_for, r.room.waiting_for());
        if (r.room.nobody_waits() && !r.has_own_options && &r != everyone_.get())
            return close_room(r);
        auto const n = r.room.wants(now, last_alarm_);
        schedule(r, n.due ? now : n.next);
    }
    // As many permits more, or fewer, know the key.
    void count_handles(handle key, std::int64_t more) noexcept {
        if (everyone_)
            return;
        for (; more > 0; --more)
            key.retain();
        for (; more < 0; ++more)
            key.release();
    }
    void schedule(own_room& r, time_point at) noexcept {
        if (r.is_scheduled && r.at == at)
            return;
        if (r.is_scheduled)
            due_.erase(due_.iterator_to(r));
        r.at = at;
        r.is_scheduled = at != never;
        if (r.is_scheduled)
            due_.insert(r);
    }
    [[nodiscard]] shared_rule const& rule_of(own_room& r) const noexcept {
        return find({.key = r.key.word()}).where.in->header;
    }
    // What `before` becomes under another rule. It goes on from a copy, so that nothing has changed if
    // memory fails, in this or in another state.
    [[nodiscard]] static state under(Rule const& rule, Rule const& old, state before,
                                     time_point now) {
        auto next = rule.begin(now);
        rule.take_over(next, old, before, now);
        return next;
    }
    [[nodiscard]] static own_policy under(shared_rule rule, own_policy const& before,
                                          time_point now) {
        auto next = under(*rule, before.rule(), before.state(), now);
        return {std::move(rule), std::move(next)};
    }
    static void change_rule(own_room& r, own_policy&& next) noexcept {
        std::ranges::swap(next, r.room.policy());
        r.room.reprice();
    }
    void clear_out(own_room& r) noexcept {
        r.room.clear_out();
        outbox_.append(r.room.outbox());
        waiting_ -= std::exchange(r.waiting, 0);
        waiting_for_ -= std::exchange(r.waiting_for, 0);
        schedule(r, never);
    }

    // Operations.

    static void unlink(operation& op) noexcept { static_cast<list_hook<in_line>&>(op).unlink(); }
    // Returns true: it is over.
    static bool end(operation& op, error_code ec) noexcept {
        op.error = ec;
        detach(op);
        return true;
    }
    bool refuse(operation& op, error_code ec) noexcept {
        counters_.refuse(ec);
        return end(op, ec);
    }
    void take_out(operation& op, error_code ec) noexcept {
        unlink(op);
        op.at = place::nowhere;
        end(op, ec);
        outbox_.push_back(op);
    }

    void shut(doors d) noexcept {
        doors_ = std::max(doors_, d);
        ++epoch_;
    }
    [[nodiscard]] bool is_idle() const noexcept { return live_ == 0 && waiting_ == 0; }
    [[nodiscard]] bool concerns_others() const noexcept {
        return waiting_ != 0 || (!draining_.empty() && is_idle());
    }

    permit_issuer& issuer_;
    std::shared_ptr<keyed_bounds<Hash>> bounds_;
    shared_rule rule_;
    queue_options queueing_;
    doors doors_ = doors::open;
    bool timed_;
    state unused_;  // of a key that was never used
    struct earlier {
        shared_rule rule;
        state unused;
    };
    std::vector<earlier> earlier_;  // while pages of the table have such a rule
    bool gone_ = false;             // the limiter object, or the execution context
    std::uint64_t hand_ = 0;        // where keys are looked for that can be forgotten
    unsigned hand_place_ = 0;
    std::uint64_t live_ = 0;  // permit objects
    std::uint64_t out_ = 0;   // permits that they stand for
    std::uint64_t waiting_ = 0;
    amount waiting_for_ = 0;
    counters counters_;
    table_type table_;

    std::uint64_t epoch_ = 0;    // grows with each event that concerns all keys
    std::uint64_t cancels_ = 0;  // and with each `cancel_all`
    list<own_room, in_rooms>
        rooms_;  // those that have not been told of the last such event come first
    boost::intrusive::multiset<own_room, boost::intrusive::base_hook<due_hook>> due_;
    std::unique_ptr<own_room> everyone_;

    operation_list draining_;
    operation_list outbox_;
    std::uint64_t next_number_ = 1;
    std::uint64_t cancel_before_ = 0;
    time_point now_{};
    time_point last_alarm_ = time_point::min();
};

}  // namespace weir::detail
