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

/// A random number, the same one for the same numbers.
[[nodiscard]] std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept;

/// The choices of one run, in order: which of how many. It lies in memory that outlives a process that
/// crashes.
struct record {
    static constexpr std::size_t capacity = 1 << 16;
    std::uint32_t size;
    std::uint32_t switches;  // how often another thread than the running one was chosen
    std::uint8_t choice[capacity];
    std::uint8_t width[capacity];
};

/// Who decides what comes next, wherever there is a choice.
class chooser {
public:
    static constexpr int timer_fires = -1;
    static constexpr int time_passes = -2;

    /// By chance; the seed also decides what kind of chance.
    chooser(std::uint64_t seed, record& log);

    /// As told, and then always the first.
    chooser(std::span<std::uint8_t const> told, record& log);

    /// One of these: numbers of threads, or one of the above; the first goes on with the running
    /// thread if `goes_on`. False if there have been too many choices for one run.
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
    unsigned loyalty_ = 0;      // of 16: how often the running thread goes on
    unsigned haste_ = 0;        // of 256: how often time passes
    unsigned fall_ = 0;         // of 256: how often the running thread falls to the lowest rank
    std::uint64_t lowest_ = 0;  // rank so far
    std::vector<std::uint64_t> ranks_;
};

/// How finely threads are interleaved.
enum class grain {
    fine,      // at each lock, unlock, post, delivery and touch of the timer
    sections,  // critical sections are atomic, and so is what surrounds them
};

/// A thread of a `scheduler`.
struct simulated_thread {
    std::string name;
    int number = 0;
    // For the user: what it is calling, which allocation from now on fails, and what the library keeps for
    // each thread.
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
    bool fresh = false;  // nothing that others could see since it was chosen
};

/// What threads run in.
class surroundings {
public:
    /// `to` goes on instead of `from`, which is null at the start.
    virtual void switches(simulated_thread* from, simulated_thread& to) = 0;

    [[nodiscard]] virtual bool timer_is_due() const = 0;
    virtual void fire_timer() = 0;
    [[nodiscard]] virtual bool time_may_pass() const = 0;
    virtual void passed(time_point now) = 0;

    /// Nobody can go on: makes somebody able to, or moves the time.
    virtual void quiet() = 0;

    /// There is no end.
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
    /// One that waits at first.
    void spawn_waiting(std::string name, void const* on, std::function<void()> body);
    /// From now on whoever comes first goes on.
    void stop_choosing() noexcept { choosing_ = false; }

    /// Runs until all threads have ended.
    void run();

    // On a thread.

    /// A place at which another thread may go on instead.
    void pause();
    /// The same, before a lock is taken: the only places if critical sections are atomic.
    void pause_before_lock();
    /// Something happens that others can see.
    void seen() noexcept { running_->fresh = false; }

    void wait(void const* on);
    void sleep(duration d);

    // Anywhere.

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
