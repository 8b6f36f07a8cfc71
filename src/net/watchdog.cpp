#include "watchdog.hpp"

#include <algorithm>

namespace net {

void watched::leave() noexcept {
    if (!is_linked())  // also after the end of the watchdog
        return;
    unlink();
    asleep_ = false;
    dog_->left();
}

void watchdog::add(watched& one) {
    keep_going_round();
    awake_.push_back(one);
    one.dog_ = this;
    ++size_;
}

void watchdog::look_at_all() {
    if (size_ == 0)
        return;
    keep_going_round();
    for (auto& those : asleep_)
        wake(those);
}

void watchdog::each(void (watched::*f)()) {
    auto const all_of = [f](list& those) {
        for (auto i = those.begin(); i != those.end();)
            ((*i++).*f)();
    };
    all_of(awake_);
    for (auto& those : asleep_)
        all_of(those.all);
}

void watchdog::go_round() {
    auto const now = clock::now();
    goes_round_ = true;
    for (auto& those : asleep_)
        if (now >= those.first)
            wake(those);
    for (auto i = awake_.begin(); i != awake_.end();) {
        auto& one = *i++;
        auto const due = one.look(now);
        if (one.is_linked() && due >= now + 2 * round)
            put_to_sleep(one, due, now);
    }
    goes_round_ = !awake_.empty();
    if (goes_round_)
        return arm(now + round);
    // Without watched objects the timer stops, so that the thread can sleep or end.
    auto const next = std::ranges::min_element(asleep_, {}, &group::first)->first;
    if (size_ != 0 && next != clock::time_point::max())
        arm(next);
}

void watchdog::keep_going_round() {
    if (goes_round_)
        return;
    arm(clock::now() + round);
    goes_round_ = true;
}

void watchdog::put_to_sleep(watched& one, clock::time_point due, clock::time_point now) {
    auto const rounds = static_cast<std::uint64_t>((due - now) / round);
    auto& those = asleep_[static_cast<std::size_t>(std::bit_width(rounds))];
    one.unlink();
    one.asleep_ = true;
    those.all.push_back(one);
    those.first = std::min(those.first, due);
}

void watchdog::wake(watched& one) {
    keep_going_round();
    one.unlink();
    one.asleep_ = false;
    awake_.push_back(one);
}

void watchdog::wake(group& those) noexcept {
    for (auto& one : those.all)
        one.asleep_ = false;
    awake_.splice(awake_.end(), those.all);
    those.first = clock::time_point::max();
}

void watchdog::arm(clock::time_point at) {
    bool const fires_already = armed_ && timer_.cancel() == 0;
    if (fires_already)
        return;
    timer_.expires_at(at);
    timer_.async_wait([this](error_code ec) {
        if (ec)
            return;
        armed_ = false;
        go_round();
    });
    armed_ = true;
}

// Without watched objects, stops the timer so that the thread can end immediately.
void watchdog::left() noexcept {
    if (--size_ == 0 && !goes_round_ && armed_ && timer_.cancel() != 0)
        armed_ = false;
}

}  // namespace net
