#pragma once

#include <weir/amount.hpp>
#include <weir/detail/counters.hpp>
#include <weir/detail/room/pause.hpp>
#include <weir/detail/room/why_unavailable.hpp>
#include <weir/detail/shares_queue.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/policy/policy.hpp>
#include <weir/queue_options.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

namespace weir::inline v0_2::detail {

/// The first layer of a room: its policies, the pause, which requests are admitted, and the permits in use. It takes
/// permits from a policy and counts them. It is independent of waiting requests.
template <class Slots>
class grants {
public:
    using slots_type = Slots;
    using policy_type = typename Slots::policy_type;
    using options_type = typename Slots::options_type;

    /// Whether the policy has commands, which a runner carries out.
    static constexpr bool is_fed = Slots::is_fed;

    grants(grants const&) = delete;
    grants& operator=(grants const&) = delete;

    void begin(time_point now) noexcept { slots_.begin(now); }

    /// Returns whether each request is granted now, since the permits would come from elsewhere.
    [[nodiscard]] bool is_unlimited() const noexcept
        requires(is_fed)
    {
        return slots_.is_unlimited();
    }

    /// The policy of a limiter without keys.
    [[nodiscard]] auto& policy() noexcept
        requires(Slots::is_one)
    {
        return slots_.policy();
    }
    [[nodiscard]] auto const& policy() const noexcept
        requires(Slots::is_one)
    {
        return slots_.policy();
    }

    // Permits that are taken and put back one by one without the room, while no operation waits: see `counting_room_lock`.

    /// Returns how many permits may be taken; negative if they cannot be counted. Call it after a grant: then the limiter
    /// is open and not paused. A request without a flow has no account of a partition.
    [[nodiscard]] amount countable() const noexcept
        requires(Slots::is_one && countable_policy<policy_type>)
    {
        return policy().countable();
    }
    /// Records that `taken` permits were taken, and that `n` more are in use; fewer if `n` is negative.
    void counted(amount n, std::uint64_t taken) noexcept {
        policy().counted(n);
        count_out(n);
        live_ += static_cast<std::uint64_t>(n);
        counters_.grant_ones(taken);
    }

    /// The number of permit objects.
    [[nodiscard]] std::uint64_t live() const noexcept { return live_; }

    /// Returns whether questions about permits need the time. If not, any time will do, and no clock is read.
    [[nodiscard]] bool needs_time_to_tell() const noexcept {
        return slots_.timed() || pause_.is_set();
    }

protected:
    using slot = typename Slots::slot;
    static constexpr bool is_one = Slots::is_one;

    enum class admission : std::uint8_t {
        all,
        waiting,  // newcomers are rejected, and the lines are served to their ends
        none,     // the requests in the lines are rejected, too
    };

    struct answer {
        bool granted = false;
        std::optional<errc> rejected = {};  // if neither, waiting may help
        time_point ready = unknown;         // when this request could be granted
    };

    template <class Options>
    grants(permit_issuer& issuer, Options&& options, queue_options const& queueing)
        : issuer_(issuer), slots_(std::forward<Options>(options), queueing) {
        count_seats();
    }
    ~grants() = default;

    [[nodiscard]] Slots& slots() noexcept { return slots_; }
    [[nodiscard]] Slots const& slots() const noexcept { return slots_; }
    [[nodiscard]] detail::pause& pause() noexcept { return pause_; }
    [[nodiscard]] detail::pause const& pause() const noexcept { return pause_; }
    [[nodiscard]] detail::counters& counters() noexcept { return counters_; }

    [[nodiscard]] bool is_open() const noexcept { return admits_ == admission::all; }
    [[nodiscard]] bool is_shut() const noexcept { return admits_ == admission::none; }
    /// Admits no more than `a` from now on.
    void admit_only(admission a) noexcept { admits_ = std::max(admits_, a); }

    // The policy of a slot, but after the pause.

    /// Returns when `n` permits can be granted after `ahead` other permits.
    [[nodiscard]] time_point ready_at(slot const& s, amount n, amount ahead,
                                      time_point now) const noexcept {
        return pause_.ready_at(s.policy(), n, ahead, now);
    }
    [[nodiscard]] amount remaining(slot const& s, time_point now) const noexcept {
        return pause_.remaining(s.policy(), now);
    }
    [[nodiscard]] duration reset_after(slot const& s, time_point now) const noexcept {
        return pause_.reset_after(s.policy(), now);
    }
    /// Returns the decision about `n` permits that can be granted at `ready`.
    [[nodiscard]] answer answer_at([[maybe_unused]] slot const& s, time_point ready,
                                   time_point now) const noexcept {
        if constexpr (is_fed) {
            if (ready == unknown) {
                auto&& policy = s.policy();
                if (auto const until = policy.unavailable_until(now))
                    return {.rejected = why_unavailable(policy), .ready = *until};
            }
        }
        return {.granted = ready <= now, .ready = ready};
    }

    /// Returns how many permits to grant: `least`, or up to `most` if more are available.
    [[nodiscard]] static amount amount_to_grant(slot const& s, amount least, amount most,
                                                time_point now) noexcept {
        return least == most ? least : std::clamp(s.policy().remaining(now), least, most);
    }

    // Permits also carry `account`.

    [[nodiscard]] permit grant_at_once(slot const& s, amount n, time_point now,
                                       std::uint8_t account = 0) {
        auto p = admit(s, n, now, duration::zero(), account);
        counters_.grant_at_once(n);
        return p;
    }
    [[nodiscard]] permit grant(slot const& s, amount n, time_point now, duration waited,
                               std::uint8_t account = 0) {
        auto p = admit(s, n, now, waited, account);
        counters_.grant(n, waited);
        return p;
    }
    /// Returns the time after which to retry a request that could be granted at `ready`; `forever` if it is unknown.
    [[nodiscard]] static duration retry_after(time_point ready, time_point now) noexcept {
        return ready >= never ? forever : std::max(ready - now, duration::zero());
    }

    // Permits in use. `n` is an unsigned sum, since absurd charges may add up to more than fits.

    void count_out(amount n) noexcept { out_ += static_cast<std::uint64_t>(n); }
    void count_back(amount n) noexcept { out_ -= static_cast<std::uint64_t>(n); }
    void permit_begins(std::uint64_t key) noexcept {
        ++live_;
        slots_.retain(key);
    }
    void permit_ends(std::uint64_t key) noexcept {
        --live_;
        slots_.release(key);
    }

    // The accounts of the order `shares`; null with any other order.

    [[nodiscard]] shares_queue* accounts() noexcept { return slots_.accounts(); }
    [[nodiscard]] shares_queue const* accounts() const noexcept { return slots_.accounts(); }
    void count_seats() noexcept {
        if constexpr (is_one) {
            if (auto* const of_shares = accounts())
                of_shares->count_seats(capacity_now_of(policy()));
        }
    }
    void settle_account(amount n, permit_origin from) noexcept {
        if (auto* const of_shares = accounts()) [[unlikely]] {
            of_shares->give_back(from.key, n);
            count_seats();
        }
    }

    // Statistics.

    [[nodiscard]] limiter_stats past() const noexcept {
        auto result = counters_.done();
        result.live = live_;
        result.in_use = static_cast<amount>(
            std::min(out_, static_cast<std::uint64_t>(std::numeric_limits<amount>::max())));
        return result;
    }
    void add_present(slot const& s, time_point now, limiter_stats& to) const noexcept {
        auto const& policy = s.policy();
        to.capacity = capacity_now(policy);
        to.remaining = pause_.remaining(policy, now);
        if constexpr (requires { policy.debt(now); })
            to.debt = policy.debt(now);
        to.reset_after = if_known(pause_.reset_after(policy, now));
    }

private:
    template <class Policy>
    [[nodiscard]] static amount capacity_now(Policy const& p) noexcept {
        if constexpr (requires { p.capacity_now(); })
            return p.capacity_now();
        else
            return p.capacity();
    }
    [[nodiscard]] permit admit(slot const& s, amount n, time_point now, duration waited,
                               std::uint8_t account) {
        auto const t = n == 0 ? ticket() : s.policy().take(n, now);
        if constexpr (is_fed && !is_one)
            slots_.took(s, now);
        permit_begins(s.key());
        count_out(n);
        return permit_issuer::grant(issuer_, n, {.ticket = t, .key = s.key() + account}, waited);
    }

    permit_issuer& issuer_;
    admission admits_ = admission::all;
    detail::pause pause_;
    std::uint64_t live_ = 0;  // permit objects
    std::uint64_t out_ = 0;   // permits that they stand for
    Slots slots_;
    detail::counters counters_;
};

}  // namespace weir::inline v0_2::detail
