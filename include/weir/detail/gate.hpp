#pragma once

#include <weir/amount.hpp>
#include <weir/detail/counters.hpp>
#include <weir/detail/room/pause.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/policy/policy.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

namespace weir::detail {

/// The data that all gates of a limiter share: the pause, the permits in use, and the decisions about requests.
struct gate_parts {
    permit_issuer& issuer;
    detail::pause pause = {};  // no gate grants anything during it
    std::uint64_t live = 0;    // permit objects
    std::uint64_t out = 0;     // permits that they stand for
    detail::counters decisions = {};

    /// The changes since the last call, for totals that another object keeps.
    struct changes {
        limiter_stats done;
        std::uint64_t live = 0;
        std::uint64_t out = 0;
    };
    [[nodiscard]] changes take() noexcept {
        return {std::exchange(decisions, {}).done(), std::exchange(live, 0), std::exchange(out, 0)};
    }
};

/// The policy of a limiter, its permits in use, and the state that admits newcomers. It is independent of the queue.
/// `Parts` is `gate_parts`, or a reference to the parts that several gates share.
template <limiting_policy Policy, class Parts = gate_parts>
class gate {
public:
    enum class doors : std::uint8_t {
        open,
        no_newcomers,  // the queue is served to its end
        shut,          // the queue is rejected, too
    };

    struct answer {
        bool granted = false;
        std::optional<errc> rejected = {};  // if neither, waiting may help
        time_point ready = unknown;         // when this request could be granted
    };

    /// Constructs a gate whose permits carry `key`. `parts` is the issuer of the permits, or what several gates share.
    template <class Source>
    gate(Source& parts, Policy&& policy, std::uint64_t key) noexcept
        : parts_{parts}, key_(key), policy_(std::move(policy)) {}

    [[nodiscard]] std::uint64_t key() const noexcept { return key_; }

    [[nodiscard]] Policy& policy() noexcept { return policy_; }
    [[nodiscard]] Policy const& policy() const noexcept { return policy_; }

    [[nodiscard]] bool is_open() const noexcept { return doors_ == doors::open; }
    [[nodiscard]] bool is_shut() const noexcept { return doors_ == doors::shut; }
    /// Closes the gate at least as far as `d`. It never opens again.
    void close(doors d) noexcept { doors_ = std::max(doors_, d); }

    /// Returns when `n` permits can be granted after `ahead` other permits, like the policy, but after the pause.
    [[nodiscard]] time_point ready_at(amount n, amount ahead, time_point now) const noexcept {
        return parts_.pause.ready_at(policy_, n, ahead, now);
    }
    /// Returns how many permits can be granted now.
    [[nodiscard]] amount remaining(time_point now) const noexcept {
        return parts_.pause.remaining(policy_, now);
    }
    /// Returns how long until the capacity can be granted at once; `forever` if that is unknown.
    [[nodiscard]] duration reset_after(time_point now) const noexcept {
        return parts_.pause.reset_after(policy_, now);
    }
    [[nodiscard]] detail::pause& pause() noexcept { return parts_.pause; }
    [[nodiscard]] detail::pause const& pause() const noexcept { return parts_.pause; }

    /// Returns whether `n` permits can be granted now, if permits for `ahead` are granted before them. If `barred`,
    /// the request must wait for the requests ahead even if it fits.
    [[nodiscard]] answer ask(amount n, amount ahead, bool barred, time_point now) const noexcept {
        if (!is_open()) [[unlikely]]
            return {.rejected = errc::closed};
        if (n == 0)
            return {.granted = true, .ready = now};
        if (n > policy_.capacity()) [[unlikely]]
            return {.rejected = errc::exceeds_capacity};
        auto const ready = ready_at(n, ahead, now);
        if constexpr (fed_policy<Policy>) {
            if (ready == unknown) {
                if (auto const until = policy_.barred(now))
                    return {.rejected = errc::unavailable, .ready = *until};
            }
        }
        return {.granted = !barred && ready <= now, .ready = ready};
    }

    /// Returns how many permits to grant: `least`, or up to `most` if more are available.
    [[nodiscard]] amount share(amount least, amount most, time_point now) const noexcept {
        return least == most ? least : std::clamp(policy_.remaining(now), least, most);
    }

    // Permits also carry `account`.

    [[nodiscard]] permit grant_at_once(amount n, time_point now, std::uint8_t account = 0) {
        auto p = admit(n, now, duration::zero(), account);
        parts_.decisions.grant_at_once(n);
        return p;
    }
    [[nodiscard]] permit grant(amount n, time_point now, duration waited,
                               std::uint8_t account = 0) {
        auto p = admit(n, now, waited, account);
        parts_.decisions.grant(n, waited);
        return p;
    }
    /// Returns the time after which to retry a request that could be granted at `ready`; `forever` if it is unknown.
    [[nodiscard]] static duration retry_after(time_point ready, time_point now) noexcept {
        return ready >= never ? forever : std::max(ready - now, duration::zero());
    }

    // Releases permits. Returns whether this may have made permits available.

    [[nodiscard]] bool leave(amount n, ticket t, time_point now) noexcept {
        --parts_.live;
        if (n == 0)
            return false;
        count_out(-n);
        return weir::leave(policy_, n, t, now);
    }
    [[nodiscard]] bool refund(amount n, ticket t, time_point now) noexcept {
        if (n == 0)
            return false;
        count_out(-n);
        return policy_.refund(n, t, now);
    }
    [[nodiscard]] bool leave_unused(amount n, ticket t, time_point now) noexcept {
        --parts_.live;
        return refund(n, t, now);
    }
    [[nodiscard]] ticket overdraw(amount n, amount held, ticket t, time_point now) {
        auto const extra = policy_.take(n, now);
        count_out(n);
        return held == 0 ? extra : policy_.merge(t, extra, n);
    }
    void split() noexcept { ++parts_.live; }
    [[nodiscard]] ticket merge(ticket into, ticket from, amount n) noexcept {
        --parts_.live;
        return n == 0 ? into : policy_.merge(into, from, n);
    }

    /// Returns whether the policy needs the time for `leave`.
    [[nodiscard]] bool needs_time_to_leave() const noexcept { return times_leave(policy_); }

    [[nodiscard]] std::uint64_t live() const noexcept { return parts_.live; }
    [[nodiscard]] detail::counters& counters() noexcept { return parts_.decisions; }

    [[nodiscard]] limiter_stats stats(time_point now) const noexcept {
        auto result = parts_.decisions.done();
        result.live = parts_.live;
        result.in_use = static_cast<amount>(
            std::min(parts_.out, static_cast<std::uint64_t>(std::numeric_limits<amount>::max())));
        result.capacity = capacity_now_of(policy_);
        result.remaining = remaining(now);
        result.debt = debt_of(policy_, now);
        result.reset_after = if_known(reset_after(now));
        result.paused_for = parts_.pause.rest(now);
        return result;
    }

private:
    [[nodiscard]] permit admit(amount n, time_point now, duration waited, std::uint8_t account) {
        auto const t = n == 0 ? ticket() : policy_.take(n, now);
        ++parts_.live;
        count_out(n);
        return permit_issuer::grant(parts_.issuer, n, {.ticket = t, .key = key_ + account}, waited);
    }
    // An unsigned number, since absurd charges may add up to more than fits.
    void count_out(amount n) noexcept { parts_.out += static_cast<std::uint64_t>(n); }

    Parts parts_;
    std::uint64_t key_;
    doors doors_ = doors::open;
    Policy policy_;
};

}  // namespace weir::detail
