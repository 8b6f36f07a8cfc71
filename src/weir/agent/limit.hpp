#pragma once

#include <weir/permit.hpp>
#include <weir/policy/fed.hpp>
#include <weir/policy/shared_bucket.hpp>
#include <weir/policy/shared_options.hpp>
#include <weir/shared/limiter.hpp>
#include <weir/shared/store.hpp>
#include <weir/time.hpp>

#include "clock.hpp"
#include "frames.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <variant>

namespace weir::inline v0_2::agent::detail {

/// A shared limiter that learns how many permits its next requests will need.
template <class Limiter>
class expecting : public Limiter {
public:
    using Limiter::Limiter;

    void expect(amount more) {
        this->core().modify([&](auto& room) {
            room.policy().expect(more);
            return false;
        });
    }
};

/// Returns whether a lease has enough permits that it is worth while to fetch them ahead.
[[nodiscard]] bool is_worth(policy::shared_bucket const& bucket, duration lease);
/// The options of a limiter with this bucket that keeps permits for a lease. Throws `std::invalid_argument` if its rate
/// cannot be expressed.
[[nodiscard]] shared_options options_of(policy::shared_bucket const& bucket, duration lease);

/// A limit whose permits the agent fetches ahead: one limiter for all its clients, and the permits that they may still
/// give back.
///
/// Use it on the strand of the agent.
template <class Timer>
class basic_limit {
public:
    /// Throws `std::invalid_argument` if the store does not support the bucket.
    basic_limit(boost::asio::any_io_executor const& ex, std::shared_ptr<weir::store> at,
                std::string const& name, policy::shared_bucket const& bucket, duration lease)
        : bucket_(bucket), lease_(lease), limiter_(make(ex, std::move(at), name, bucket, lease)) {}

    /// Returns whether it applies this rate.
    [[nodiscard]] bool is_for(policy::shared_bucket const& bucket) const noexcept {
        return bucket.drained == bucket_.drained && bucket.permit == bucket_.permit &&
               bucket.burst == bucket_.burst && bucket.window == bucket_.window;
    }
    /// Applies another rate. Throws `std::invalid_argument`.
    void use(policy::shared_bucket const& bucket) {
        std::visit([&](auto& l) { l.configure(options_of(bucket, lease_)); }, limiter_);
        bucket_ = bucket;
    }

    /// Grants from the available permits, if they are at least `q.min` and no question waits: up to `q.max`.
    [[nodiscard]] permit take_now(take const& q) {
        auto found = std::visit([&](auto& l) { return l.try_enter_up_to(q.max); }, limiter_);
        if (found.count() < q.min)
            found.refund();
        return found;
    }
    /// Waits in the line for `q.min` permits, and calls `f(error_code, permit)` on the strand. The next question to the
    /// store is for the others, too.
    template <class Handler>
    void wait(take const& q, duration patience, Handler f) {
        std::visit(
            [&](auto& l) {
                l.expect(q.max - q.min);
                l.async_enter(q.min, patience, std::move(f));
            },
            limiter_);
    }
    /// Returns the reply with these permits, and with others up to `q.max` if there are any.
    [[nodiscard]] answer grant(take const& q, permit p);
    /// Takes permits back that a client did not use. Returns false if it does not know their grant.
    bool take_back(amount count, std::int64_t since);

    /// Returns the message about the last failure of the store.
    [[nodiscard]] std::string failure() const {
        return std::visit([](auto const& l) { return l.last_failure().text; }, limiter_);
    }
    /// Returns whether no question waits.
    [[nodiscard]] bool is_idle() const {
        return std::visit([](auto const& l) { return l.stats().waiting == 0; }, limiter_);
    }

private:
    struct grant_record {
        std::int64_t since;
        time_point until;
        permit granted;
    };
    template <class Policy>
    using limiter_of = expecting<basic_shared_limiter<Policy, boost::asio::any_io_executor, Timer>>;
    using any_limiter = std::variant<limiter_of<policy::fed>, limiter_of<policy::fed_log>>;

    static constexpr std::size_t most_records = 4096;

    static any_limiter make(boost::asio::any_io_executor const& ex, std::shared_ptr<weir::store> at,
                            std::string const& name, policy::shared_bucket const& bucket,
                            duration lease) {
        auto const options = options_of(bucket, lease);
        return bucket.window == 0
                   ? any_limiter(std::in_place_index<0>, ex, std::move(at), name, options)
                   : any_limiter(std::in_place_index<1>, ex, std::move(at), name, options);
    }
    static time_point now() noexcept { return clock_time<typename Timer::clock_type>(); }
    void forget_old(time_point now) {
        while (!granted_.empty() && granted_.front().until <= now)
            granted_.pop_front();
    }

    policy::shared_bucket bucket_;
    duration lease_;
    any_limiter limiter_;
    std::deque<grant_record> granted_;
    std::int64_t last_since_ = 0;
};

using limit = basic_limit<boost::asio::steady_timer>;

template <class Timer>
answer basic_limit<Timer>::grant(take const& q, permit p) {
    using std::chrono::microseconds;
    auto const at = now();
    forget_old(at);
    if (p.count() < q.max) {
        auto more =
            std::visit([&](auto& l) { return l.try_enter_up_to(q.max - p.count()); }, limiter_);
        if (more)
            p.merge(std::move(more));
    }
    auto const time = std::chrono::duration_cast<microseconds>(at.time_since_epoch()).count();
    last_since_ = std::max(last_since_ + 1, std::int64_t{time});
    answer const made{.id = q.id, .granted = p.count(), .since = last_since_};
    // Permits that are refilled by then are not worth giving back.
    constexpr std::int64_t longest = microseconds(std::chrono::hours(24)).count();
    auto const refill = bucket_.window != 0 ? bucket_.window : bucket_.time_of(p.count());
    auto const until = later(at, q.timeout + microseconds(std::min(refill, longest)));
    if (granted_.size() == most_records)
        granted_.pop_front();
    granted_.push_back(grant_record{last_since_, until, std::move(p)});
    return made;
}

template <class Timer>
bool basic_limit<Timer>::take_back(amount count, std::int64_t since) {
    forget_old(now());
    auto const found = std::ranges::lower_bound(granted_, since, {}, &grant_record::since);
    bool const is_known =
        found != granted_.end() && found->since == since && found->granted.count() >= count;
    if (is_known)
        found->granted.split(count).refund();
    return is_known;
}

}  // namespace weir::inline v0_2::agent::detail
