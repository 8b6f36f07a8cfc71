#pragma once

#include "ledger.hpp"

#include <chrono>

namespace explorer {

/// Permits per window of the calendar, by the readings of the wall clock that the policy made. Permits beyond the limit are
/// a debt, which the next windows pay before they grant anything.
///
/// A reading is due at the first use, a minute after the one before, and at the end of the window: the policy may make no
/// other, and what it decides must follow from it.
class calendar_ledger final : public ledger {
public:
    explicit calendar_ledger(rule in_force) : ledger(in_force) {}

    amount remaining(time_point now) const override;
    void took(amount n, ticket t, time_point now) override;
    void refunded(amount n, ticket t, time_point now) override;
    void configured(rule next, time_point now) override;
    void read_clock(time_point now) override;

private:
    using sys_seconds = std::chrono::sys_seconds;

    /// A window on the wall clock.
    struct window {
        sys_seconds begin;
        sys_seconds end;
    };

    calendar_ledger(calendar_ledger const& other)
        : ledger(other.rule_),
          begun_(other.begun_),
          window_(other.window_),
          since_(other.since_),
          read_at_(other.read_at_),
          foreseen_(other.foreseen_),
          end_(other.end_),
          used_(other.used_),
          owed_(other.owed_) {}

    [[nodiscard]] std::chrono::sys_days first_day(std::chrono::sys_days of) const;
    [[nodiscard]] std::chrono::sys_days day_after(std::chrono::sys_days first) const;
    [[nodiscard]] window window_at(sys_seconds t) const;

    [[nodiscard]] bool is_due(time_point now) const;
    void hear(time_point now, duration shown);
    void move_on(time_point now);
    void begin_window(window next, time_point now);
    void pay();
    [[nodiscard]] calendar_ledger at(time_point now) const;
    std::unique_ptr<ledger> copy() const override;
    time_point alone(amount n, time_point now) const override;

    bool begun_ = false;
    window window_{};
    time_point since_{};     // the first reading in this window
    time_point read_at_{};   // the last reading
    bool foreseen_ = false;  // it was assumed, before the policy made it
    time_point end_{};       // of the window, if the clock makes no step
    amount used_ = 0;
    amount owed_ = 0;
};

}  // namespace explorer
