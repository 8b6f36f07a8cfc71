#pragma once

#include <weir/amount.hpp>
#include <weir/detail/counting_lock.hpp>

#include <concepts>

namespace weir::inline v0_2::detail {

/// A room whose permits can be taken and put back one by one without it.
template <class Room>
concept countable_room = requires(Room r) {
    { r.countable() } noexcept -> std::same_as<amount>;
};

/// The lock of a room.
template <class Room, class Mutex>
class plain_room_lock {
public:
    explicit plain_room_lock(Room&) noexcept {}

    void lock() { mutex_.lock(); }
    void unlock() { mutex_.unlock(); }
    void unlock_and_count() { mutex_.unlock(); }
    [[nodiscard]] static bool try_take() noexcept { return false; }
    [[nodiscard]] static bool try_put_back() noexcept { return false; }
    [[nodiscard]] static bool try_hold(counting) noexcept { return false; }
    static void end_hold(counting) noexcept {}

private:
    Mutex mutex_;
};

/// The lock of a countable room. While the room is quiet (no operation waits, and no work is due) the lock counts its
/// free permits. Under the lock the room knows all its permits.
///
/// Any section may end by `unlock`. A section that granted one permit ends by `unlock_and_count`, since more such calls
/// are likely to follow.
template <class Room, class Mutex>
class counting_room_lock {
public:
    explicit counting_room_lock(Room& room) noexcept : room_(room) {}

    [[gnu::always_inline]] void lock() noexcept {
        if (auto const found = mutex_.lock(); found.counts()) [[unlikely]]
            take_back_count(found);
    }
    [[gnu::always_inline]] void unlock() noexcept { mutex_.unlock({}); }
    /// Precondition: the room is quiet.
    void unlock_and_count() noexcept {
        given_ = counting_word::of(room_.countable());
        mutex_.unlock(given_);
    }

    // Call these without the lock. They return false if the lock is needed.

    [[nodiscard]] bool try_take() noexcept { return mutex_.try_take(); }
    [[nodiscard]] bool try_put_back() noexcept { return mutex_.try_put_back(); }

    /// Takes the lock if a permit could be taken, or put back, without it. The room does not notice it: so several limiters
    /// can count together. The hold ends by `end_hold`, with the same argument or with `nothing`.
    [[nodiscard]] bool try_hold(counting what) noexcept {
        auto const found = mutex_.try_lock_to(what);
        if (!found.counts())
            return false;
        held_ = found;
        return true;
    }
    void end_hold(counting what) noexcept { mutex_.unlock(held_.after(what)); }

private:
    [[gnu::noinline, gnu::cold]] void take_back_count(counting_word found) noexcept {
        room_.counted(given_.left() - found.left(), found.taken());
    }

    Mutex mutex_;
    // These change under the lock.
    counting_word given_;  // the last count
    counting_word held_;   // the count at the begin of a hold
    Room& room_;
};

/// Whether a host has a lock that counts, and a room permits that can be counted.
template <class Room, class Host>
inline constexpr bool has_counting_lock = false;
template <countable_room Room, class Host>
    requires requires { typename Host::counting_mutex_type; }
inline constexpr bool has_counting_lock<Room, Host> = true;

template <class Room, class Host>
struct room_lock_of {
    using type = plain_room_lock<Room, typename Host::mutex_type>;
};
template <class Room, class Host>
    requires has_counting_lock<Room, Host>
struct room_lock_of<Room, Host> {
    using type = counting_room_lock<Room, typename Host::counting_mutex_type>;
};
template <class Room, class Host>
using room_lock = typename room_lock_of<Room, Host>::type;

}  // namespace weir::inline v0_2::detail
