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

/// An object with time limits. It is used on the thread of its watchdog.
class watched : public boost::intrusive::list_base_hook<
                    boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
public:
    /// Called on a round. Returns the time of its next limit; it may be called before that, and is called on the first round
    /// after it. It may cancel operations and `leave`, but destroys nothing that is watched.
    [[nodiscard]] virtual clock::time_point look(clock::time_point now) = 0;

    /// The thread is about to end: an object that only waits for work stops.
    virtual void stop_if_idle() = 0;

    /// The time for that is over.
    virtual void abort() = 0;

    /// Has `look` called on the next round.
    void look_soon();
    /// The time at which `limit` from now will certainly be over. `look` is called on the next round, and may return it.
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

    watchdog* dog_ = nullptr;  // the last that watched it
    bool asleep_ = false;
};

/// One timer for all the time limits of a thread. A limit is a time that is stored, and compared on the next round, so that
/// setting it costs a store: a timer of Asio for each would be moved twice in every request. It is noticed late by up to two
/// rounds, and never early.
///
/// An object whose next limit is some rounds away sleeps until then. There are no rounds while all sleep, so that
/// connections without traffic wake nothing.
class watchdog {
public:
    static constexpr std::chrono::milliseconds round{50};

    explicit watchdog(asio::io_context& context) : timer_(context) {}

    /// Precondition: `one` is not watched.
    void add(watched& one);

    /// Has all called on the next round.
    void look_at_all();

    /// Calls the function of this name of each watched object.
    void stop_if_idle() { each(&watched::stop_if_idle); }
    void abort() { each(&watched::abort); }

private:
    friend class watched;

    using list = boost::intrusive::list<watched, boost::intrusive::constant_time_size<false>>;

    // Group k sleeps for at least 2^(k - 1) rounds, and for less than twice as long. When the first of a group is due, all of it
    // are looked at, and the rest joins the group of what is left: at most twice in one group.
    struct group {
        list all;
        clock::time_point first = clock::time_point::max();  // is due; or has left
    };
    static constexpr std::uint64_t most_rounds = clock::duration::max() / round;

    void each(void (watched::*f)());
    void go_round();
    void keep_going_round();
    void put_to_sleep(watched& one, clock::time_point due);
    void wake(watched& one);
    void wake(group& those) noexcept;
    void arm(clock::time_point at);
    void left() noexcept;

    timer timer_;
    list awake_;
    std::array<group, std::bit_width(most_rounds) + 1> asleep_;
    std::size_t size_ = 0;  // of all
    clock::time_point now_ = clock::now();
    bool goes_round_ = false;  // `now_` is less than a round ago
    bool armed_ = false;       // the timer
};

inline void watched::look_soon() {
    if (asleep_)
        dog_->wake(*this);
}

inline clock::time_point watched::after(clock::duration limit) {
    look_soon();
    return dog_->now_ + watchdog::round + limit;
}

}  // namespace net
