#pragma once

#include <weir/time.hpp>

#include "fiber.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace explorer {

using weir::duration;
using weir::time_point;

/// Returns a pseudo-random number that depends only on the arguments.
[[nodiscard]] std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept;

/// The choices of one run, in order: the option and the number of options. It is in memory that outlives a process
/// that crashes.
struct record {
    static constexpr std::size_t capacity = 1 << 16;
    std::uint32_t size;
    std::uint32_t switches;  // how often a thread other than the running one was chosen
    std::uint8_t choice[capacity];
    std::uint8_t width[capacity];
};

/// Makes the decision at each choice.
class chooser {
public:
    static constexpr int timer_fires = -1;
    static constexpr int time_passes = -2;

    /// Chooses at random; the seed also selects the distribution.
    chooser(std::uint64_t seed, record& log);

    /// Chooses as recorded, and then always the first option.
    chooser(std::span<std::uint8_t const> told, record& log);

    /// Chooses one of these: numbers of threads, or the constants above; the first continues the running thread if
    /// `goes_on`. Returns false after too many choices for one run.
    [[nodiscard]] bool pick(std::span<int const> options, bool goes_on, std::size_t& which);

private:
    enum class manner { evenly, lazily, by_rank };

    [[nodiscard]] std::size_t chance(std::span<int const> options, bool goes_on);
    [[nodiscard]] std::uint64_t& rank(int option);

    record* log_;
    std::span<std::uint8_t const> told_;
    std::mt19937_64 random_;
    bool by_chance_;
    manner manner_ = manner::evenly;
    unsigned loyalty_ = 0;      // of 16: how often the running thread continues
    unsigned haste_ = 0;        // of 256: how often time passes
    unsigned fall_ = 0;         // of 256: how often the running thread falls to the lowest rank
    std::uint64_t lowest_ = 0;  // rank so far
    std::vector<std::uint64_t> ranks_;
};

/// The granularity of the interleaving.
enum class grain {
    fine,      // at each lock, unlock, post, delivery and use of the timer
    sections,  // critical sections are atomic, with the surrounding work
};

/// A thread of a `scheduler`.
struct simulated_thread {
    std::string name;
    int number = 0;
    // For the user: its present call, the number of the allocation that fails from now on, and the state of the
    // library for each thread.
    void* call = nullptr;
    int failing_allocation = 0;
    void* of_library = nullptr;

private:
    friend class scheduler;
    enum class state { ready, waiting, asleep, ended };

    std::unique_ptr<fiber> stack;
    std::function<void()> body;
    state is = state::ended;
    void const* on = nullptr;
    time_point until{};
    bool fresh = false;  // no visible action since it was chosen
};

/// The environment of the threads.
class surroundings {
public:
    /// Continues `to` instead of `from`, which is null at the start.
    virtual void switches(simulated_thread* from, simulated_thread& to) = 0;

    [[nodiscard]] virtual bool timer_is_due() const = 0;
    virtual void fire_timer() = 0;
    [[nodiscard]] virtual bool time_may_pass() const = 0;
    virtual void passed(time_point now) = 0;

    /// No thread can continue: enables one, or moves the time.
    virtual void quiet() = 0;

    /// Ends a run that does not terminate.
    [[noreturn]] virtual void runs_away() = 0;

protected:
    ~surroundings() = default;
};

/// Simulated threads, of which one runs at a time, and virtual time.
class scheduler {
public:
    using thread = simulated_thread;

    scheduler(surroundings& around, chooser& choices, grain how_fine);
    scheduler(scheduler const&) = delete;
    scheduler& operator=(scheduler const&) = delete;
    ~scheduler();

    thread& spawn(std::string name, std::function<void()> body);
    /// Starts a thread that waits at first.
    void spawn_waiting(std::string name, void const* on, std::function<void()> body);
    /// From now on the first thread that can continue does so.
    void stop_choosing() noexcept { choosing_ = false; }

    /// Runs until all threads have ended.
    void run();

    // Call these on a simulated thread.

    /// A point at which another thread may continue instead.
    void pause();
    /// A point before a lock is taken: the only kind of point if critical sections are atomic.
    void pause_before_lock();
    /// Records an action that other threads can see.
    void seen() noexcept { running_->fresh = false; }

    void wait(void const* on);
    void sleep(duration d);

    // Call these on any thread.

    void notify(void const* on);
    void pass(time_point until);
    [[nodiscard]] time_point now() const noexcept { return now_; }
    [[nodiscard]] time_point next_waking() const noexcept;
    [[nodiscard]] thread* running() const noexcept { return running_; }

private:
    static void live(void* self);
    void next();

    surroundings& around_;
    chooser& choices_;
    grain grain_;
    time_point now_{duration(100)};
    std::vector<thread*> threads_;
    thread* running_ = nullptr;
    bool choosing_ = true;
    fiber main_;
    std::vector<int> options_;
};

}  // namespace explorer
