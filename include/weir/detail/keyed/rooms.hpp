#pragma once

#include <weir/amount.hpp>
#include <weir/detail/key_handle.hpp>
#include <weir/detail/list.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/published.hpp>
#include <weir/detail/room/common.hpp>
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
    using room_type = waiting_room<own_policy, Queue, shared_parts>;
    using doors = typename gate<own_policy, gate_parts&>::doors;

    /// The waiting room of one key, which holds the key's state.
    struct own_room : list_hook<in_rooms>, due_hook {
        own_room(keyed_rooms& all, key_handle<Key> key, shared_rule rule, state&& s) noexcept
            : epoch(all.epoch_),
              room(all.parts_, all.of_gates_, own_policy(std::move(rule), std::move(s)),
                   key.word()) {}

        [[nodiscard]] key_handle<Key> key() const noexcept {
            return key_handle<Key>::from(room.key());
        }

        bool stays = false;  // even if no request waits
        bool is_scheduled = false;
        time_point at{};      // when it has work, if it is scheduled
        std::uint64_t epoch;  // the last event for all keys that was applied
        room_type room;

        friend bool operator<(own_room const& a, own_room const& b) noexcept { return a.at < b.at; }
    };

    /// Constructs no rooms. `of_gates` is the data that their gates share.
    keyed_rooms(gate_parts& of_gates, queue_options const& queueing) noexcept
        : of_gates_(of_gates), parts_(queueing) {}
    keyed_rooms(keyed_rooms const&) = delete;
    keyed_rooms& operator=(keyed_rooms const&) = delete;
    ~keyed_rooms() {
        while (!all_.empty())
            delete &all_.pop_front();
    }

    /// Opens a room without waiting requests. Throws `std::bad_alloc`; then nothing was moved from `s`.
    [[nodiscard]] own_room& open(key_handle<Key> key, shared_rule rule, state&& s) {
        auto r = std::make_unique<own_room>(*this, key, std::move(rule), std::move(s));
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
    /// The parts that all rooms share.
    [[nodiscard]] common_parts& parts() noexcept { return parts_; }
    [[nodiscard]] common_parts const& parts() const noexcept { return parts_; }
    /// Returns the changes of the counts in the rooms since the last call.
    [[nodiscard]] gate_parts::changes take_counts() noexcept { return of_gates_.take(); }

    // Events that concern all rooms, and rooms that are opened later.

    void shut(doors d) noexcept {
        doors_ = std::max(doors_, d);
        ++epoch_;
    }
    void cancel_all() noexcept { cancelled_ = ++epoch_; }
    /// Does nothing if a newer version is in force.
    void set_queueing(published<queue_options>::version const& next) noexcept {
        if (next.number <= queueing_version_)
            return;
        parts_.queueing = next.value;
        queueing_version_ = next.number;
        ++epoch_;
    }
    /// Records that the grant times have changed, since the pause has another end.
    void reprice() noexcept { repriced_ = ++epoch_; }

    /// Applies the events for all rooms that the room has missed. Call it before any event in the room.
    void tell(own_room& r) noexcept {
        if (r.epoch == epoch_)
            return;
        r.room.adopt_queueing();
        tell_of_doors(r);
        if (r.epoch < cancelled_)
            r.room.cancel_all();
        if (r.epoch < repriced_)
            r.room.reprice();
        r.epoch = epoch_;
        static_cast<list_hook<in_rooms>&>(r).unlink();
        all_.push_back(r);
    }
    /// Returns a room with missed events, or null.
    [[nodiscard]] own_room* untold() const noexcept {
        return all_.empty() || all_.front().epoch == epoch_ ? nullptr : &all_.front();
    }

    /// Schedules the room again. Call this or `close` after each event in it.
    void schedule(own_room& r, time_point now, time_point last_alarm) noexcept {
        schedule(r, r.room.next_event(now, last_alarm));
    }

    /// The room with the earliest work, or null; and the time of that work.
    [[nodiscard]] own_room* next() noexcept { return due_.empty() ? nullptr : &*due_.begin(); }
    [[nodiscard]] time_point next_at() const noexcept {
        return due_.empty() ? never : due_.begin()->at;
    }

    /// Removes all operations of all rooms, without an outcome, and calls the chains.
    void clear_out() noexcept {
        doors_ = doors::shut;
        for (auto* r = all_.empty() ? nullptr : &all_.front(); r; r = all_.after(*r)) {
            r->room.clear_out();
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

    gate_parts& of_gates_;
    common_parts parts_;
    std::uint64_t queueing_version_ = 0;
    doors doors_ = doors::open;
    std::uint64_t epoch_ = 0;      // grows with each event that concerns all rooms
    std::uint64_t cancelled_ = 0;  // the last such event that was a `cancel_all`
    std::uint64_t repriced_ = 0;   // the last such event that was a `reprice`
    // Rooms that have missed the last such event come first.
    list<own_room, in_rooms> all_;
    boost::intrusive::multiset<own_room, boost::intrusive::base_hook<due_hook>> due_;
};

}  // namespace weir::detail
