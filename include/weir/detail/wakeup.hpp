#pragma once

#include <weir/time.hpp>

#include <cstdint>
#include <optional>

namespace weir::detail {

/// What a waiting room needs of its actor now.
struct needs {
    time_point next = never;  // when there is something to do although nobody calls
    bool due = false;         // there is something to do now
    bool waiting = false;     // the context must be kept running
};

/// The wake-up protocol: decides whether a step message must be posted for the actor, and what the step
/// must arrange with the host. It is told the needs after each event, under the lock of the core. It
/// compares them with what is on its way or arranged, so that no event needs to know any other.
///
/// | state               | it means                                                              |
/// |---------------------|-----------------------------------------------------------------------|
/// | `step_posted_`      | a step message is on its way; the step clears it as it begins         |
/// | `step_missing_`     | one is needed, but posting it has failed: the next event tries again  |
/// | `arranging_`        | a step is at the host, outside the lock; another step that comes      |
/// |                     | meanwhile does nothing, since this one asks again when it is back     |
/// | `held_`, `timer_at_`| the work guard and the timer, as they are or as `arranging_` will     |
/// |                     | leave them; the timer may even fire before `arranged` is called       |
/// | `epoch_`            | tells the callback of this timer from those of earlier ones           |
///
/// It is pure: it posts nothing, touches no timer and knows no clock.
class wakeup {
public:
    /// What a step must do with the host, outside the lock.
    struct arrangement {
        std::optional<bool> hold;         // the work guard
        std::optional<time_point> timer;  // `never` disarms
        std::uint64_t epoch = 0;          // of that timer
    };

    /// After an event: whether the caller must now post a step message. If that fails the caller must
    /// call `post_failed()`.
    [[nodiscard]] bool hear(needs const& n) noexcept;
    void post_failed() noexcept;

    /// The step message has arrived.
    void step_arrived() noexcept { step_posted_ = false; }

    /// The timer's callback has arrived; it may be that of an earlier timer.
    void timer_fired(std::uint64_t epoch) noexcept;

    /// What the host must be made to do, if anything: the caller does it outside the lock and then
    /// calls `arranged`. Precondition: `!is_arranging()`.
    [[nodiscard]] std::optional<arrangement> arrange(needs const& n) noexcept;
    /// What has failed counts as not done. The caller must call `hear` next, since the needs may have
    /// changed meanwhile.
    void arranged(arrangement const& a, bool hold_succeeded, bool timer_succeeded) noexcept;

    [[nodiscard]] bool is_arranging() const noexcept { return arranging_; }

    /// Whether nothing is held, armed, or missing.
    [[nodiscard]] bool is_at_rest() const noexcept { return at_rest_; }
    [[nodiscard]] bool is_step_missing() const noexcept { return step_missing_; }

    /// For when the timer is armed; `never` if it is not.
    [[nodiscard]] time_point timer_at() const noexcept { return timer_at_; }
    /// For when the timer that fired last was armed; before the first one, the beginning of time.
    [[nodiscard]] time_point last_alarm() const noexcept { return last_alarm_; }

    /// The host goes: no step is wanted from now on.
    void stop() noexcept;

private:
    [[nodiscard]] bool must_move_timer(needs const& n) const noexcept;
    void note_rest() noexcept;

    bool at_rest_ = true;
    bool step_posted_ = false;
    bool step_missing_ = false;
    bool arranging_ = false;
    bool held_ = false;
    bool stopped_ = false;
    time_point timer_at_ = never;
    time_point last_alarm_ = time_point::min();
    std::uint64_t epoch_ = 0;
};

}  // namespace weir::detail
