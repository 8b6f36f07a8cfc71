#pragma once

#include <weir/amount.hpp>
#include <weir/detail/key_handle.hpp>
#include <weir/detail/list.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/published.hpp>
#include <weir/detail/room/pause.hpp>
#include <weir/detail/wait_recorder.hpp>
#include <weir/detail/waiting_room.hpp>
#include <weir/permit.hpp>
#include <weir/policy/rule.hpp>
#include <weir/queue_options.hpp>
#include <weir/time.hpp>

#include <boost/intrusive/set.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

namespace weir::detail {

/// An operation that waits for permits of one key.
class keyed_operation : public operation {
public:
    void* room = nullptr;  // the room of the key

protected:
    keyed_operation() = default;
    ~keyed_operation() = default;
};

/// The waiting rooms of the keys that need one. An event for all keys reaches each room later: before the next event
/// in the room, or by `settle` of the `keyed_room`. A room is scheduled for the time at which it has work.
template <class Key, limiting_rule Rule, class Queue>
class keyed_rooms {
    struct in_rooms;
    using due_hook =
        boost::intrusive::set_base_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>>;

public:
    using shared_rule = std::shared_ptr<Rule const>;
    using state = typename Rule::state_type;
    using own_policy = policy::ruled<Rule, shared_rule>;
    using room_type = waiting_room<own_policy, Queue>;
    using doors = typename gate<own_policy>::doors;
    using books = typename gate<own_policy>::books;

    /// The waiting room of one key, which holds the key's state.
    struct own_room : list_hook<in_rooms>, due_hook {
        own_room(keyed_rooms& all, permit_issuer& issuer, key_handle<Key> k, shared_rule rule,
                 state&& s) noexcept
            : key(k),
              epoch(all.epoch_),
              cancels(all.cancels_),
              pauses(all.pauses_),
              room(issuer, own_policy(std::move(rule), std::move(s)), all.queueing(), k.word(),
                   all.pause_, all.waits_) {}

        key_handle<Key> key;
        bool stays = false;  // even if no request waits
        bool is_scheduled = false;
        time_point at{};            // when it has work, if it is scheduled
        std::uint64_t epoch;        // the last event for all keys that was applied
        std::uint64_t cancels;      // the last applied `cancel_all`
        std::uint64_t pauses;       // the last applied change of the pause
        std::uint64_t waiting = 0;  // as counted in the sums below
        amount waiting_for = 0;
        room_type room;

        friend bool operator<(own_room const& a, own_room const& b) noexcept { return a.at < b.at; }
    };

    /// Constructs no rooms. Rooms grant nothing during `p`.
    keyed_rooms(queue_options const& queueing, pause const& p) noexcept
        : queueing_{queueing}, pause_(p) {}
    keyed_rooms(keyed_rooms const&) = delete;
    keyed_rooms& operator=(keyed_rooms const&) = delete;
    ~keyed_rooms() {
        while (!all_.empty())
            delete &all_.pop_front();
    }

    /// Opens a room without waiting requests. Throws `std::bad_alloc`; then nothing was moved from `s`.
    [[nodiscard]] own_room& open(permit_issuer& issuer, key_handle<Key> key, shared_rule rule,
                                 state&& s) {
        auto r = std::make_unique<own_room>(*this, issuer, key, std::move(rule), std::move(s));
        tell_of_doors(*r);
        all_.push_back(*r);
        return *r.release();
    }
    /// Closes the room and returns its state.
    [[nodiscard]] state close(own_room& r) noexcept {
        std::unique_ptr<own_room> const at_end(&r);
        if (r.is_scheduled)
            due_.erase(due_.iterator_to(r));
        static_cast<list_hook<in_rooms>&>(r).unlink();
        return r.room.policy().take_state();
    }

    [[nodiscard]] doors door() const noexcept { return doors_; }
    [[nodiscard]] queue_options const& queueing() const noexcept { return queueing_.value; }
    [[nodiscard]] std::uint64_t waiting() const noexcept { return waiting_; }
    [[nodiscard]] amount waiting_for() const noexcept { return waiting_for_; }
    [[nodiscard]] wait_histogram waits() const noexcept { return waits_.recorded(); }

    // Events that concern all rooms, and rooms that are opened later.

    void shut(doors d) noexcept {
        doors_ = std::max(doors_, d);
        ++epoch_;
    }
    void cancel_all() noexcept {
        ++cancels_;
        ++epoch_;
    }
    /// Does nothing if a newer version is in force.
    void set_queueing(published<queue_options>::version const& next) noexcept {
        if (next.number <= queueing_.number)
            return;
        queueing_ = next;
        ++epoch_;
    }
    /// Records that the pause has another end.
    void pause_changes() noexcept {
        ++pauses_;
        ++epoch_;
    }

    /// Applies the events for all rooms that the room has missed. Call it before any event in the room.
    void tell(own_room& r) noexcept {
        if (r.epoch == epoch_)
            return;
        r.epoch = epoch_;
        r.room.set_queueing(queueing());
        tell_of_doors(r);
        if (r.cancels != cancels_)
            r.room.cancel_all();
        r.cancels = cancels_;
        if (r.pauses != pauses_)
            r.room.reprice();
        r.pauses = pauses_;
        static_cast<list_hook<in_rooms>&>(r).unlink();
        all_.push_back(r);
    }
    /// Returns a room with missed events, or null.
    [[nodiscard]] own_room* untold() const noexcept {
        return all_.empty() || all_.front().epoch == epoch_ ? nullptr : &all_.front();
    }

    /// Counts the waiting requests after an event in the room, and returns the other changes of the counts.
    /// Operations that have left go to `outbox`. Either `close` or `schedule` must follow.
    [[nodiscard]] books take_books(own_room& r, operation_list& outbox) noexcept {
        outbox.append(r.room.outbox());
        waiting_ += r.room.waiting() - std::exchange(r.waiting, r.room.waiting());
        waiting_for_ += r.room.waiting_for() - std::exchange(r.waiting_for, r.room.waiting_for());
        return r.room.take_books();
    }
    void schedule(own_room& r, time_point now, time_point last_alarm) noexcept {
        auto const n = r.room.wants(now, last_alarm);
        schedule(r, n.due ? now : n.next);
    }

    /// The room with the earliest work, or null; and the time of that work.
    [[nodiscard]] own_room* next() noexcept { return due_.empty() ? nullptr : &*due_.begin(); }
    [[nodiscard]] time_point next_at() const noexcept {
        return due_.empty() ? never : due_.begin()->at;
    }

    /// Removes all operations of all rooms, without an outcome, and calls the chains.
    void clear_out(operation_list& outbox, call_list& calls) noexcept {
        doors_ = doors::shut;
        for (auto* r = all_.empty() ? nullptr : &all_.front(); r; r = all_.after(*r)) {
            r->room.clear_out();
            static_cast<void>(take_books(*r, outbox));
            r->room.take_calls(calls);
            schedule(*r, never);
        }
    }

private:
    void tell_of_doors(own_room& r) const noexcept {
        if (doors_ == doors::shut)
            r.room.close();
        else if (doors_ == doors::no_newcomers)
            r.room.shut_down();
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

    published<queue_options>::version queueing_;
    pause const& pause_;
    doors doors_ = doors::open;
    std::uint64_t epoch_ = 0;    // grows with each event that concerns all rooms
    std::uint64_t cancels_ = 0;  // and with each `cancel_all`
    std::uint64_t pauses_ = 0;   // and with each change of the pause
    std::uint64_t waiting_ = 0;
    amount waiting_for_ = 0;
    wait_recorder waits_;
    // Rooms that have missed the last such event come first.
    list<own_room, in_rooms> all_;
    boost::intrusive::multiset<own_room, boost::intrusive::base_hook<due_hook>> due_;
};

}  // namespace weir::detail
