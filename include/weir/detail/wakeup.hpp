#pragma once

#include <weir/time.hpp>

#include <cstdint>
#include <optional>

namespace weir::inline v0_2::detail {

/// The needs of a room, which its actor must meet now.
struct needs {
    time_point next = never;  // when work becomes due without a call
    bool due = false;         // work is due now
    bool waiting = false;     // the context must be kept running
};

/// The wake-up protocol: decides whether a step message must be posted for the actor, and what the step must arrange
/// with the host. It receives the needs after each event, under the lock of the core. It compares them with the posted
/// messages and the arrangements, so that no event depends on another.
///
/// | state               | meaning                                                               |
/// |---------------------|-----------------------------------------------------------------------|
/// | `step_posted_`      | a step message is posted; the step clears it as it begins             |
/// | `step_missing_`     | one is needed, but posting it failed: the next event retries          |
/// | `arranging_`        | a step uses the host, outside the lock; another step that arrives     |
/// |                     | meanwhile does nothing, since the first one asks again afterwards     |
/// | `held_`, `timer_at_`| the work guard and the timer, as they are or as `arranging_` will     |
/// |                     | leave them; the timer may even fire before `arranged` is called       |
/// | `epoch_`            | tells the callback of this timer from callbacks of earlier timers     |
///
/// The class is pure: it posts no message, and uses no timer and no clock.
class wakeup {
public:
    /// The work of a step with the host, outside the lock.
    struct arrangement {
        std::optional<bool> hold;         // the work guard
        std::optional<time_point> timer;  // `never` disarms
        std::uint64_t epoch = 0;          // of that timer
    };

    /// Returns, after an event, whether the caller must post a step message now. If posting fails, the caller must call
    /// `post_failed()`.
    [[nodiscard]] bool update(needs const& n) noexcept;
    void post_failed() noexcept;

    /// Records that the step message has arrived.
    void step_arrived() noexcept { step_posted_ = false; }

    /// Records a timer callback, possibly the callback of an earlier timer.
    void timer_fired(std::uint64_t epoch) noexcept;

    /// Returns what the host must do, if anything. The caller does it outside the lock and then calls `arranged`.
    /// Precondition: `!is_arranging()`.
    [[nodiscard]] std::optional<arrangement> arrange(needs const& n) noexcept;
    /// Records the results of `arrange`; a failed part counts as not done. The caller must call `update` next, since the
    /// needs may have changed meanwhile.
    void arranged(arrangement const& a, bool hold_succeeded, bool timer_succeeded) noexcept;

    [[nodiscard]] bool is_arranging() const noexcept { return arranging_; }

    /// Returns whether nothing is held, armed, or missing.
    [[nodiscard]] bool is_at_rest() const noexcept { return at_rest_; }
    [[nodiscard]] bool is_step_missing() const noexcept { return step_missing_; }

    /// The instant for which the timer is armed; `never` if it is not armed.
    [[nodiscard]] time_point timer_at() const noexcept { return timer_at_; }
    /// The instant for which the timer that fired last was armed; before the first one, the minimum `time_point`.
    [[nodiscard]] time_point last_alarm() const noexcept { return last_alarm_; }

    /// Records the end of the host: no step is needed from now on.
    void stop() noexcept;

private:
    [[nodiscard]] bool must_move_timer(needs const& n) const noexcept;
    void update_rest() noexcept;

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

}  // namespace weir::inline v0_2::detail
