#include <weir/policy/keys_contact.hpp>

#include <algorithm>

namespace weir::inline v0_2::policy {

keys_contact::keys_contact(shared_options const& o, time_point now) : contact_(o) {
    contact_.begin(now);
}

void keys_contact::use(shared_options const& o, time_point now) noexcept {
    std::lock_guard const lock(mutex_);
    contact_.use(o, now);
    publish();
}

// Call it under the lock. `changes` if waiting requests must be examined in any case.
void keys_contact::publish(bool changes) noexcept {
    auto const& outage = contact_.outage();
    bool const failing = outage.is_failing();
    bool const waits = failing && is_awaiting_;
    auto const limit = is_awaiting_ ? later(awaited_since_, contact_.stats().timeout) : never;
    changes = changes || failing != failing_.load(std::memory_order_relaxed) ||
              contact_.mode() != mode_.load(std::memory_order_relaxed);
    ask_from_.store(!failing ? time_point::min()
                    : waits  ? never
                             : outage.retry_at(),
                    std::memory_order_relaxed);
    retry_at_.store(waits ? time_point::min() : outage.retry_at(), std::memory_order_relaxed);
    next_change_.store(std::min(limit, outage.begins_at()), std::memory_order_relaxed);
    failing_.store(failing, std::memory_order_relaxed);
    mode_.store(contact_.mode(), std::memory_order_relaxed);
    has_event_.store(contact_.has_event(), std::memory_order_relaxed);
    if (changes)
        changes_.fetch_add(1, std::memory_order_release);
}

std::optional<time_point> keys_contact::unavailable_until(time_point now) const noexcept {
    auto const m = mode();
    if (m != shared_mode::closed && m != shared_mode::misconfigured)
        return std::nullopt;
    auto const until = retry_at_.load(std::memory_order_relaxed);
    return now < until ? std::optional(until) : std::nullopt;
}

std::optional<keys_contact::asked> keys_contact::ask(time_point now) noexcept {
    std::lock_guard const lock(mutex_);
    if (!may_ask(now))
        return std::nullopt;
    if (!is_awaiting_) {
        is_awaiting_ = true;
        awaited_since_ = now;
        contact_.asks(now);
        publish();
    } else {
        ++contact_.stats().questions;
    }
    return asked{++last_number_, contact_.stats().timeout};
}

void keys_contact::answered(std::uint64_t number, store_answer const& a, time_point sent,
                            bool is_late, time_point now) noexcept {
    std::lock_guard const lock(mutex_);
    contact_.replied(now);
    is_awaiting_ = last_number_ > number;
    if (is_awaiting_) {
        awaited_since_ = now;
        contact_.still_asks(now);
    }
    if (is_late)
        contact_.answered_late(a);
    else
        contact_.answered(a, sent, now);
    publish();
}

void keys_contact::failed(std::uint64_t number, store_answer const& a, time_point now) noexcept {
    std::lock_guard const lock(mutex_);
    bool const is_misconfigured = !a.lost && a.kind == failure_kind::misconfigured;
    if (number > last_failed_) {
        contact_.failed(a, now);
        last_failed_ = last_number_;
        is_awaiting_ = false;
    } else {
        contact_.count_failure(a);
        if (is_misconfigured)
            contact_.misconfigured(a.wait, now);
    }
    publish(contact_.mode() != shared_mode::store);
}

void keys_contact::elapse(time_point now) noexcept {
    if (now < next_change())
        return;
    std::lock_guard const lock(mutex_);
    bool const is_late = is_awaiting_ && now >= later(awaited_since_, contact_.stats().timeout);
    if (is_late) {
        contact_.timed_out(now);
        last_failed_ = last_number_;
        is_awaiting_ = false;
    }
    contact_.elapse(now);
    publish(is_late && contact_.mode() != shared_mode::store);
}

shared_stats keys_contact::stats() const {
    std::lock_guard const lock(mutex_);
    auto s = contact_.stats();
    s.bypassed_permits = bypassed_.load(std::memory_order_relaxed);
    s.returned = returned_.load(std::memory_order_relaxed);
    s.lapsed = lapsed_.load(std::memory_order_relaxed);
    return s;
}

std::optional<mode_change> keys_contact::pop_event() noexcept {
    std::lock_guard const lock(mutex_);
    auto const found = contact_.pop_event();
    has_event_.store(contact_.has_event(), std::memory_order_relaxed);
    return found;
}

}  // namespace weir::inline v0_2::policy
