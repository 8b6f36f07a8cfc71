#pragma once

#include <weir/detail/context_user.hpp>
#include <weir/detail/counting_lock.hpp>

#include "oracle.hpp"
#include "scenario.hpp"
#include "schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace explorer {

/// The exception of a failing post, and of handlers.
struct failure {};

/// A posted function. It is run or destroyed, once.
class message {
public:
    virtual ~message() = default;
    virtual void run() = 0;
};

/// An execution context and the messages posted to it.
struct context {
    std::deque<std::unique_ptr<message>> messages;
    int running = 0;  // threads that run a message
    bool stopped = false;
    bool gone = false;
};

/// The timer of a host. Once it has fired, its callback cannot be cancelled.
struct alarm {
    time_point at = weir::never;
    std::function<std::unique_ptr<message>()> callback;
};

/// The environment of a core: a host with a timer, and at most one step message.
struct station {
    int number = 0;
    context* where = nullptr;  // it runs in
    bool has_host = false;
    bool held = false;
    bool counts = false;   // its lock counts permits
    bool touched = false;  // timer and work: by one at a time
    bool step_on_its_way = false;
    alarm timer;
    // the object that the end of the context ends
    std::weak_ptr<weir::detail::context_user> attached;
};

/// The world of one run: threads, time, two execution contexts, a station for each core and the oracle.
///
/// A limiter lives in the context `home`, unless its station names another one; `elsewhere` is a second context,
/// which outlives it.
class simulation : public surroundings {
public:
    simulation(scenario const& s, chooser& choices, grain how_fine, bool aloud, int cores = 1);
    virtual ~simulation();
    simulation(simulation const&) = delete;
    simulation& operator=(simulation const&) = delete;

    [[nodiscard]] static simulation& current() noexcept;

    // For the core's lock and host.

    void lock(scheduler::thread*& owner, int core);
    void unlock(scheduler::thread*& owner, int core);
    /// Takes the lock if it is free and `can()`. Returns whether it did.
    template <class Can>
    bool try_lock(scheduler::thread*& owner, int core, Can can) {
        if (quiet_call_)
            return false;
        unfailing const ours;
        threads.pause_before_lock();
        if (owner || !can())
            return false;
        take_lock(owner, core);
        return true;
    }
    /// Reports the effect of a critical section that only counts, before its end: a permit that it has taken or put back,
    /// or nothing.
    void counts(int core, weir::detail::counting how);
    /// Each core has one, and they are made in the order of the stations.
    [[nodiscard]] int count_lock() noexcept { return locks_++; }
    /// Takes the message over, or throws and leaves it.
    void post(context& where, std::unique_ptr<message>& m);
    /// Posts a step message: one at a time.
    void post_step(station& at, std::unique_ptr<message> m);
    static void step_begins(station& at) { at.step_on_its_way = false; }
    void set_timer(station& at, time_point when,
                   std::function<std::unique_ptr<message>()> callback);
    void hold(station& at, bool keep);
    /// Returns whether anything keeps the context of these limiters from returning.
    [[nodiscard]] bool is_kept_running(context const& one) const noexcept {
        return is_held(one) || one.running != 0 || !one.messages.empty() || one.stopped;
    }
    static void host_is_made(station& at) { at.has_host = true; }
    void host_goes(station& at);

    /// Fails if this thread holds the lock: it is about to run or destroy an object of a user.
    void check_unlocked(char const* what) const;

    [[nodiscard]] call& calling() const;

    /// Returns whether the present call is not a part of the schedule.
    [[nodiscard]] bool is_quiet() const { return quiet_call_; }

    // For callers.

    /// Names the present call of the running thread, for as long as it exists.
    class calls : public call {
    public:
        explicit calls(kind k, int of_core = 0, int of_key = every_key);
        calls(calls const&) = delete;
        calls& operator=(calls const&) = delete;
        ~calls();
    };

    /// Returns whether this thread is in a call that starts an operation.
    [[nodiscard]] bool initiating() const;

    /// Makes the allocation number `which` from now on fail, on this thread; 0 fails none.
    void fail_allocation(int which) noexcept { threads.running()->failing_allocation = which; }
    [[nodiscard]] static bool allocation_fails() noexcept;

    /// While it exists, allocations on this thread do not fail: they belong to the simulation.
    class unfailing {
    public:
        unfailing() noexcept;
        unfailing(unfailing const&) = delete;
        unfailing& operator=(unfailing const&) = delete;
        ~unfailing();

    private:
        int kept_;
    };

    template <class... Args>
    void say(fmt::format_string<Args...> format, Args&&... args) {
        if (aloud_)
            print(fmt::format(format, std::forward<Args>(args)...));
    }

    scenario const& what;
    context home;
    context elsewhere;
    scheduler threads;
    oracle judge;
    std::vector<station> stations;
    duration wall_ahead;  // of the limiter's time: the time of day since 1970

    // Events of critical sections, and of the end.
    virtual void section_begins(call& c, int core) = 0;
    virtual void section_ends(call& c, int core) = 0;
    virtual void section_counts(call& c, int core, weir::detail::counting how) = 0;

protected:
    /// The threads that run contexts. They end with the world.
    void start_contexts();
    void end_contexts();

    /// Destroys the messages posted to `home`; nothing may be posted to it afterwards.
    void sweep_home();

    /// Returns whether a post has failed since the last call: work may be owed.
    [[nodiscard]] bool has_failed() noexcept { return std::exchange(failed_, false); }
    void let_posts_fail(bool may) noexcept { failures_ = may ? what.post_failures : 0; }

    [[nodiscard]] time_point timer_at() const noexcept {
        return std::ranges::min_element(stations, {}, fires_at)->timer.at;
    }
    [[nodiscard]] bool is_held(context const& one) const noexcept {
        return std::ranges::any_of(stations, [&](station const& s) {
            return s.held && s.where == &one;
        });
    }

    // A call from between the threads: the lock is free.
    bool quiet_call_ = false;

private:
    static time_point fires_at(station const& s) noexcept { return s.timer.at; }
    void switches(simulated_thread* from, simulated_thread& to) final;
    [[nodiscard]] bool timer_is_due() const final { return timer_at() <= threads.now(); }
    void fire_timer() final;
    [[nodiscard]] bool time_may_pass() const final { return holders_.empty(); }
    void passed(time_point now) final;
    [[noreturn]] void runs_away() final;

    void take_lock(scheduler::thread*& owner, int core);
    void serve(context& where);
    void put(context& where, std::unique_ptr<message>& m);
    void may_fail();
    void touch_host(station& at);
    void print(std::string const& line) const;

    bool aloud_;
    std::vector<scheduler::thread*> holders_;  // of locks
    int locks_ = 0;
    bool over_ = false;
    bool failed_ = false;
    unsigned failures_;
    std::uint64_t posts_ = 0;
};

}  // namespace explorer
