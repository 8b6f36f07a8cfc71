#pragma once

#include <weir/policy/policy.hpp>

#include <optional>

namespace weir::inline v0_2 {

/// The options of `server_quota`.
struct server_quota_options {
    /// The number of permits that may be in use at a time while the quota is unknown, 1 to `max_amount`.
    amount probes = 1;

    /// A quota, as a response states it.
    struct statement {
        amount remaining = 0;  ///< the permits that are left until `reset`, at least 0
        duration reset{};      ///< the time from now until the quota is full again, at least 0
        amount counted =
            0;  ///< permits in use that the server has counted: the permits of the request
    };
    /// The latest statement, which the limiter takes into account once: `options()` returns none.
    std::optional<statement> stated = std::nullopt;
};

namespace policy {

/// The quota of a server, as its responses state it: the limiter grants what the last responses leave.
///
/// A statement holds until its reset. Until then the limiter grants at most the stated number, less the permits that are
/// in use: the server may or may not have counted these requests. Further statements until then only lower the number,
/// since responses may arrive in any order. Resets of one window differ by at most 1.5 s, because servers round them to
/// seconds; the latest one holds. A statement with an earlier reset is about an earlier window, and is ignored. A statement
/// with a later reset begins the next window if the present one ends within 1.5 s; before that it is a late response, which
/// may lower the number. After the reset, and before the first statement, the quota is unknown, and at most `probes` permits are in use at a time
/// that were granted in this time. A statement with a reset of 0 makes the quota unknown at once.
///
/// A request for more than `probes` permits is granted while the quota is unknown if no other permit of this time is in
/// use. So a request for more than the server's quota is the server's to reject.
///
/// Measured by test/limiter/server_quota.cpp: a server that counts in windows, and that no other client uses, rejects
/// none of 1,000 requests. It has `probes` 1, one permit per request, and no lost response, and it makes the fields when
/// it counts the request, less than a second before they arrive.
///
/// `keyed` does not support it, since the statements are options: make one for each account at a server.
///
/// Memory: constant, 88 bytes. Each call takes constant time.
class server_quota {
public:
    using options_type = server_quota_options;

    explicit server_quota(options_type const& options);

    void begin(time_point now) noexcept { hear(now); }
    /// Continues from the quota and the permits in use of `before`, and takes the statement into account.
    void take_over(server_quota& before, time_point now) noexcept;

    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    [[nodiscard]] amount capacity() const noexcept { return max_amount; }
    [[nodiscard]] bool timed() const noexcept { return true; }
    [[nodiscard]] amount remaining(time_point now) const noexcept;
    [[nodiscard]] amount debt(time_point now) const noexcept;
    [[nodiscard]] time_point ready_at(amount n, amount ahead, time_point now) const noexcept;

    ticket take(amount n, time_point now) noexcept;
    bool leave(amount n, ticket t, time_point now) noexcept;
    bool refund(amount n, ticket t, time_point now) noexcept;
    [[nodiscard]] ticket merge(ticket a, ticket b, amount n) noexcept;

private:
    [[nodiscard]] bool is_known(time_point now) const noexcept { return known_ && now < reset_; }
    // Returns the permits in use that were granted while the quota has been unknown, if it is.
    [[nodiscard]] amount probing(time_point now) const noexcept {
        return known_ && now >= reset_ ? 0 : probing_;
    }
    void begin_period(bool known) noexcept;
    void elapse(time_point now) noexcept;
    void hear(time_point now) noexcept;

    options_type options_;
    amount in_use_ = 0;
    // A period is a time in which the quota is known for one window of the server, or unknown. The ticket of a permit is
    // the number of the period of its grant.
    ticket period_ = 0;
    bool known_ = false;
    time_point reset_{};  // while known: the end
    amount left_ =
        0;  // while known: the permits that can be granted until then; negative after `charge`
    amount probing_ = 0;  // while unknown: the permits in use that were granted in this period
};

}  // namespace policy
}  // namespace weir::inline v0_2
