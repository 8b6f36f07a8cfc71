#pragma once

#include <weir/amount.hpp>
#include <weir/policy/backoff.hpp>
#include <weir/rate.hpp>
#include <weir/time.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <variant>

namespace weir::inline v0_2 {

/// Rejects requests with `errc::unavailable` in an outage.
///
/// An outage begins with a second of silence, or with the fifth question in a row that the server rejects; see
/// `policy::outage`. Until then requests wait. Every reply ends it.
struct fail_closed {};
/// Grants everything in an outage, as `fail_closed` describes it: no limit applies. Each grant then completes through an
/// executor, so that a loop of requests lets other work run.
struct fail_open {};
/// Grants a share of the limit in this process in an outage, as `fail_closed` describes it.
///
/// The share, from a millionth to 1, applies to the rate and to the burst; the burst is at least 1. N processes
/// together grant at most `N * share * (burst + rate * outage)` besides the grants of the store; with a share of 1/N,
/// that is the limit itself. Earlier grants to the process count.
struct fail_local {
    /// The share of the rate and of the burst, from a millionth to 1.
    double share = 1;
};

/// A rate that many processes share, and the handling of requests while the store is unavailable.
struct shared_options {
    /// The rate, at least 1 permit per period. All processes that share it must use the same rate.
    weir::rate rate{1, std::chrono::seconds(1)};

    /// The most permits that all processes together can be granted at once after a pause: 1 to 500,000,000. By default
    /// it is the number of permits in `rate`.
    std::optional<amount> burst = {};

    /// The longest time by which a grant may be booked ahead, 0 to 60 s. While the demand exceeds the rate, the limiter
    /// does not poll the store: the request at the head of the queue has a booked grant, and waits for it. A value
    /// below the shortest pause between two grants makes distant processes starve.
    duration reach = std::chrono::seconds(1);

    /// The time limit for a reply, 1 us to 60 s. Afterwards the permits of the question count as used, because the
    /// store may have granted them, and the limiter asks again. By default it follows the store: three times the last
    /// round trip, from 50 ms to `most_timeout`; `most_timeout` before the first reply, and twice as long after each
    /// reply that is late.
    std::optional<duration> timeout = {};

    /// The longest time limit for a reply by default.
    static constexpr duration most_timeout = std::chrono::milliseconds(500);

    /// The most permits that are fetched ahead of requests, to be granted here without a question: 0 to 500,000,000.
    /// With 0 each grant needs a reply. Otherwise the number follows the demand, starting at 0. It doubles each time
    /// permits were used up within a tenth of `prefetch_time`. It is halved when some lapse, or when the store grants
    /// fewer than it was asked for. It is never more than half of the burst.
    amount prefetch = 0;

    /// The time for which permits fetched ahead can be used, 1 ms to 60 s. The rest then lapses: the store takes back
    /// as many of them as were not refilled meanwhile. Until then they keep the context of the limiter running. By
    /// default it is 100 ms, or the time of four permits if that is longer. It has no effect without a prefetch.
    std::optional<duration> prefetch_time = {};

    /// The handling of requests in an outage. The limiter keeps asking the store. It does not apply to a misconfigured
    /// store: then requests are rejected with `errc::misconfigured`.
    std::variant<fail_closed, fail_open, fail_local> on_failure = {};

    /// The pauses between questions after rejections by the server, and in an outage. A store that pauses between its
    /// own attempts names the time of the next one, which replaces this pause.
    backoff_options retry = {
        .initial = std::chrono::milliseconds(50), .max = std::chrono::milliseconds(500)};
};

/// Throws `std::invalid_argument` if an option is invalid; its text names the option, the value and the bound.
void validate(shared_options const& options);

/// The part that decides about the requests of a shared limiter.
enum class shared_mode : std::uint8_t {
    store,          ///< the store
    closed,         ///< `fail_closed`, which rejects all requests in an outage
    open,           ///< `fail_open`, which grants all requests
    local,          ///< `fail_local`, which grants the share of this process
    misconfigured,  ///< the limiter, which rejects all requests, because the store is misconfigured
};

/// A change of the mode of a shared limiter.
struct mode_change {
    /// The mode before the change.
    shared_mode before = shared_mode::store;
    /// The mode after the change.
    shared_mode after = shared_mode::store;
    /// The time of the change, on the clock of the limiter.
    time_point at{};
    /// The number of the change, from 1 on. A gap means that changes were not reported.
    std::uint64_t number = 0;
};

/// Counts of the questions of a shared limiter since its construction, and its current state.
struct shared_stats {
    /// Questions to the store.
    std::uint64_t questions = 0;
    /// Permits that the store granted.
    amount granted = 0;
    /// Questions whose reply was a booked grant.
    std::uint64_t booked = 0;
    /// Questions whose reply was a rejection.
    std::uint64_t denied = 0;
    /// Questions that the server rejected, or that did not reach it.
    std::uint64_t failed = 0;
    /// Questions that the store did not send, because it waits for the server, or before the next attempt to connect.
    std::uint64_t unsent = 0;
    /// Questions without a valid reply in time, for which the store may have granted permits. These count as used.
    std::uint64_t unknown = 0;
    /// Replies that arrived too late, to `unknown` questions.
    std::uint64_t late = 0;
    /// Questions with a reply in time.
    std::uint64_t answered = 0;
    /// Questions since the last reply that are `failed`, `unsent` or `unknown`.
    std::uint32_t failing = 0;
    /// Permits that were given back to the store: unused, or granted too late.
    amount returned = 0;
    /// Permits that were granted, but not used in time.
    amount lapsed = 0;
    /// The number of permits that are fetched ahead now.
    amount prefetch = 0;
    /// Permits that `fail_open` and `fail_local` granted without the store.
    amount bypassed_permits = 0;
    /// Whether there is an outage now.
    bool unavailable = false;
    /// The number of outages.
    std::uint64_t outages = 0;
    /// The current mode.
    shared_mode mode = shared_mode::store;
    /// The time at which the current mode began.
    time_point mode_since{};
    /// The number of changes of the mode.
    std::uint64_t mode_changes = 0;
    /// How often the clock of the store was set forward, as its grants show: it advanced by 100 ms more than the clock
    /// of this process, or by a thousandth of the time between two grants, if that is more. A step forward grants the
    /// refill of its length, at most a burst and the grants booked then.
    std::uint64_t steps_forward = 0;
    /// How often the clock of the store was set back, as its grants show: it advanced by 100 ms less than the clock of
    /// this process, or by a thousandth of the time between two grants, if that is more. A step back grants nothing,
    /// and a sliding log does not show it.
    std::uint64_t steps_back = 0;
    /// How often the server lost the state of this limiter, as the replies show: it had none, although an earlier grant
    /// to this process was not refilled yet. Each loss grants up to a burst, and the permits that were booked, again.
    std::uint64_t losses = 0;
    /// The time from the last question with a reply in time to that reply.
    duration round_trip{};
    /// The time limit for the next reply.
    duration timeout{};

    /// Returns whether a question is in progress.
    [[nodiscard]] bool is_asking() const noexcept {
        return questions != answered + failed + unsent + unknown;
    }
};

}  // namespace weir::inline v0_2
