#pragma once

#include "asio.hpp"

#include <boost/intrusive/list.hpp>

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace net {

class watchdog;

/// An object with time limits. Use it on the thread of its watchdog.
class watched : public boost::intrusive::list_base_hook<
                    boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
public:
    /// The watchdog calls this function on a round. It returns the time of the object's next limit. The next call comes
    /// on the first round after that time, or earlier. The function may cancel operations and call `leave`, but must
    /// not destroy a watched object.
    [[nodiscard]] virtual clock::time_point look(clock::time_point now) = 0;

    /// Called before the thread ends: an object that only waits for work must stop.
    virtual void stop_if_idle() = 0;

    /// Called when the time to stop is over: the object must stop immediately, and may end its connections as it wants.
    virtual void abort() {}
    /// Called after `abort` of all objects: a connection that is still open must end.
    virtual void abort_connection() {}

    /// Requests a call of `look` on the next round.
    void look_soon();
    /// The time at which `limit`, counted from now, is over. Requests a call of `look` on the next round, which may return
    /// that time.
    [[nodiscard]] clock::time_point after(clock::duration limit);

    /// Ends the watch.
    void leave() noexcept;
    [[nodiscard]] bool is_watched() const noexcept { return is_linked(); }

protected:
    watched() = default;
    watched(watched const&) = delete;
    ~watched() { leave(); }

private:
    friend class watchdog;

    watchdog* dog_ = nullptr;  // the last one that watched the object
    bool asleep_ = false;
};

/// One timer for all time limits of a thread. Setting a limit only stores a time, which the next round compares; an
/// Asio timer for each limit would be changed twice in every request. The watchdog notices an exceeded limit up to a
/// round late, and never early.
///
/// An object whose next limit is some rounds away sleeps until then. While all objects sleep there are no rounds, so
/// connections without traffic cause no wakeups.
class watchdog {
public:
    static constexpr std::chrono::milliseconds round{50};

    explicit watchdog(asio::io_context& context) : timer_(context) {}

    /// Precondition: `one` is not watched.
    void add(watched& one);

    /// Requests a call of `look` for all watched objects on the next round.
    void look_at_all();

    /// Calls the function of this name of each watched object.
    void stop_if_idle() { each(&watched::stop_if_idle); }
    /// Stops all watched objects immediately.
    void abort() {
        each(&watched::abort);
        each(&watched::abort_connection);
    }

private:
    friend class watched;

    using list = boost::intrusive::list<watched, boost::intrusive::constant_time_size<false>>;

    // The objects of group k sleep for at least 2^(k - 1) rounds, and less than twice as long. When the first object of
    // a group is due, the watchdog calls `look` of the whole group. Each object that is not due joins the group of its
    // remaining time; it joins the same group at most twice.
    struct group {
        list all;
        clock::time_point first =
            clock::time_point::max();  // when the first object is due; it may have left
    };
    static constexpr std::uint64_t most_rounds = clock::duration::max() / round;

    void each(void (watched::*f)());
    void go_round();
    void keep_going_round();
    void put_to_sleep(watched& one, clock::time_point due, clock::time_point now);
    void wake(watched& one);
    void wake(group& those) noexcept;
    void arm(clock::time_point at);
    void left() noexcept;

    timer timer_;
    list awake_;
    std::array<group, std::bit_width(most_rounds) + 1> asleep_;
    std::size_t size_ = 0;  // of all
    bool goes_round_ = false;
    bool armed_ = false;  // the timer
};

inline void watched::look_soon() {
    if (asleep_)
        dog_->wake(*this);
}

inline clock::time_point watched::after(clock::duration limit) {
    look_soon();
    return clock::now() + limit;
}

}  // namespace net
