#pragma once

#include <weir/detail/arrival_queue.hpp>
#include <weir/detail/context_user.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>

// The host of a core in single-threaded tests of its critical sections. Its time stops, its messages wait until the
// test runs them, and it records the actions under the lock.

namespace support {

/// The actions in critical sections. The test decides what counts as work.
struct sections {
    static inline bool open = false;
    static inline std::uint64_t number = 0;
    static inline std::uint64_t work = 0;  // in the open section
    static inline std::uint64_t most_work = 0;
    static inline std::uint64_t all_work = 0;

    static void forget() { number = most_work = all_work = 0; }
    static void count() {
        if (open)
            ++work;
    }
};

class noted_mutex {
public:
    static void lock() {
        if (sections::open)
            throw std::logic_error("locked twice");
        sections::open = true;
    }
    static void unlock() {
        sections::open = false;
        ++sections::number;
        sections::all_work += sections::work;
        sections::most_work = std::max(sections::most_work, std::exchange(sections::work, 0));
    }
};

class noted_host {
public:
    using mutex_type = noted_mutex;
    struct event_type {
        static void set() {}
        static void wait() { throw std::logic_error("no other thread exists"); }
    };

    static inline weir::time_point time{std::chrono::hours(1)};
    static inline std::deque<std::function<void()>> messages;

    [[nodiscard]] static weir::time_point now() noexcept { return time; }
    static void attach(std::weak_ptr<weir::detail::context_user> const&) {}

    template <class Core>
    static void post(std::shared_ptr<Core> core) {
        messages.emplace_back([core = std::move(core)] { core->step(); });
    }

    template <class Core>
    static void arm(std::weak_ptr<Core> core, weir::time_point at, std::uint64_t epoch) {
        timer = {at, [core = std::move(core), epoch] {
                     if (auto const alive = core.lock())
                         alive->timer_expired(epoch);
                 }};
    }
    static void disarm() { timer = {weir::never, {}}; }
    static void hold(bool) {}

    /// Runs messages until there are none; returns their number.
    static std::size_t run() {
        std::size_t count = 0;
        for (; !messages.empty(); ++count) {
            auto const next = std::move(messages.front());
            messages.pop_front();
            next();
        }
        return count;
    }

    /// Fires the timer, moving the time to its instant if necessary, and runs the messages.
    static std::size_t run_to_timer() {
        auto const [at, fire] = std::exchange(timer, {weir::never, {}});
        time = std::max(time, at);
        if (fire)
            fire();
        return run();
    }

private:
    struct alarm {
        weir::time_point at;
        std::function<void()> fires;
    };
    static inline alarm timer{weir::never, {}};
};

/// The order `fifo`; it counts each request that it is asked about as work.
class noted_fifo : public weir::detail::fifo {
public:
    using arrival_queue::arrival_queue;

    [[nodiscard]] weir::detail::operation* after(weir::detail::operation& op) const noexcept {
        sections::count();
        return arrival_queue::after(op);
    }
};

}  // namespace support
