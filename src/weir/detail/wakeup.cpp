#include <weir/detail/wakeup.hpp>

namespace weir::inline v0_2::detail {

bool wakeup::update(needs const& n) noexcept {
    bool const wanted = n.due || n.waiting != held_ || must_move_timer(n);
    if (!wanted || stopped_ || step_posted_) {
        step_missing_ = false;
    } else {
        step_posted_ = true;
        step_missing_ = false;
        update_rest();
        return true;
    }
    update_rest();
    return false;
}

void wakeup::post_failed() noexcept {
    step_posted_ = false;
    step_missing_ = true;
    update_rest();
}

void wakeup::timer_fired(std::uint64_t epoch) noexcept {
    if (epoch != epoch_)
        return;
    last_alarm_ = timer_at_;
    timer_at_ = never;
    update_rest();
}

std::optional<wakeup::arrangement> wakeup::arrange(needs const& n) noexcept {
    arrangement a;
    if (n.waiting != held_)
        a.hold = held_ = n.waiting;
    if (must_move_timer(n)) {
        a.timer = timer_at_ = n.next;
        a.epoch = ++epoch_;
    }
    update_rest();
    if (!a.hold && !a.timer)
        return std::nullopt;
    arranging_ = true;
    return a;
}

void wakeup::arranged(arrangement const& a, bool hold_succeeded, bool timer_succeeded) noexcept {
    arranging_ = false;
    if (a.hold && !hold_succeeded)
        held_ = !*a.hold;
    if (a.timer && !timer_succeeded)
        timer_at_ = never;
    update_rest();
}

void wakeup::stop() noexcept {
    stopped_ = true;
    step_missing_ = held_ = false;
    timer_at_ = never;
    ++epoch_;
    update_rest();
}

// A timer that would fire too early stays armed: that does no harm, and a change has a cost.
bool wakeup::must_move_timer(needs const& n) const noexcept {
    return n.next < timer_at_ || (n.next == never && timer_at_ != never);
}

void wakeup::update_rest() noexcept {
    at_rest_ = !held_ && !step_missing_ && timer_at_ == never;
}

}  // namespace weir::inline v0_2::detail
