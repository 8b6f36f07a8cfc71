#include <weir/policy/store_contact.hpp>

#include <algorithm>
#include <utility>
#include <variant>

namespace weir::inline v0_2::policy {
namespace {

shared_mode mode_in_outage(shared_options const& o) noexcept {
    return std::holds_alternative<fail_open>(o.on_failure) ? shared_mode::open
           : std::holds_alternative<fail_local>(o.on_failure)
               ? shared_mode::local
               : shared_mode::closed;
}

}  // namespace

store_contact::store_contact(shared_options const& o) noexcept
    : timeout_(o.timeout), in_outage_(mode_in_outage(o)), outage_(o.retry) {
    stats_.timeout = o.timeout.value_or(shared_options::most_timeout);
}

void store_contact::use(shared_options const& o, time_point now) noexcept {
    if (o.timeout || timeout_)
        stats_.timeout = o.timeout.value_or(shared_options::most_timeout);
    timeout_ = o.timeout;
    in_outage_ = mode_in_outage(o);
    outage_.use(o.retry);
    note_mode(now);
}

void store_contact::note_state(time_point now) noexcept {
    bool const was_unavailable =
        std::exchange(stats_.unavailable, outage_.current() == outage::state::unavailable);
    stats_.outages += stats_.unavailable && !was_unavailable;
    note_mode(now);
}

void store_contact::note_mode(time_point now) noexcept {
    auto const mode = outage_.current() == outage::state::misconfigured ? shared_mode::misconfigured
                      : stats_.unavailable                              ? in_outage_
                                                                        : shared_mode::store;
    if (mode == stats_.mode)
        return;
    auto const number = ++stats_.mode_changes;
    changes_[number % changes_.size()] = {stats_.mode, mode, now, number};
    if (number - told_ > changes_.size())
        told_ = number - changes_.size();
    stats_.mode = mode;
    stats_.mode_since = now;
}

std::optional<mode_change> store_contact::pop_event() noexcept {
    if (!has_event())
        return std::nullopt;
    return changes_[++told_ % changes_.size()];
}

// The store read its clock between the question and the reply.
void store_contact::read_clock(std::int64_t said, time_point sent, time_point now) noexcept {
    auto const before = std::exchange(clock_, {sent, now, said});
    if (before.said == 0)
        return;
    using std::chrono::ceil;
    using std::chrono::floor;
    using std::chrono::microseconds;
    microseconds const passed(said - before.said);
    auto const slack = std::max(step_least, (now - before.sent) / 1000);
    stats_.steps_forward += passed > floor<microseconds>(now - before.sent + slack);
    stats_.steps_back += passed < ceil<microseconds>(sent - before.received - slack);
}

void store_contact::replied(time_point now) noexcept {
    stats_.failing = 0;
    outage_.replied();
    note_state(now);
}

void store_contact::answered(store_answer const& a, time_point sent, time_point now) noexcept {
    ++stats_.answered;
    stats_.round_trip = now - sent;
    if (!timeout_)
        stats_.timeout =
            std::clamp(3 * stats_.round_trip, least_timeout, shared_options::most_timeout);
    stats_.granted += a.granted;
    stats_.denied += a.granted == 0;
    stats_.booked += a.granted != 0 && a.wait.count() > 0;
    if (a.granted != 0)
        read_clock(a.since - a.wait.count(), sent, now);
}

void store_contact::count_failure(store_answer const& a) noexcept {
    ++(a.lost ? stats_.unknown : a.kind == failure_kind::unsent ? stats_.unsent : stats_.failed);
}

void store_contact::failed(store_answer const& a, time_point now) noexcept {
    count_failure(a);
    ++stats_.failing;
    outage_.failed(a.lost ? failure_kind::no_reply : a.kind, a.wait, now);
    note_state(now);
}

void store_contact::misconfigured(duration again_in, time_point now) noexcept {
    outage_.misconfigured(again_in, now);
    note_state(now);
}

void store_contact::timed_out(time_point now) noexcept {
    failed({.lost = true}, now);
    if (!timeout_)
        stats_.timeout = std::min(2 * stats_.timeout, shared_options::most_timeout);
}

bool store_contact::elapse(time_point now) noexcept {
    if (!outage_.elapse(now))
        return false;
    note_state(now);
    return true;
}

}  // namespace weir::inline v0_2::policy
