#include "limit.hpp"

#include "clock.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace weir::inline v0_2::agent::detail {
namespace {

using std::chrono::microseconds;

// The rate whose bucket is `b`, in lowest terms.
rate rate_of(policy::shared_bucket const& b) {
    if (b.window != 0)
        return {b.burst, microseconds(b.window)};
    auto const common = std::gcd(b.drained, std::int64_t{1000});
    auto const factor = 1000 / common;
    if (b.permit > std::numeric_limits<std::int64_t>::max() / factor)
        throw std::invalid_argument("weir::agent: the period of a rate is too long");
    return {b.drained / common, std::chrono::nanoseconds(b.permit * factor)};
}

double permits_in(duration d, rate const& r) {
    return std::chrono::duration<double>(d) / std::chrono::duration<double>(r.period()) *
           static_cast<double>(r.permits());
}

shared_options options_of(policy::shared_bucket const& b, duration lease) {
    auto const r = rate_of(b);
    auto const ahead = std::min(permits_in(lease, r), static_cast<double>(b.burst));
    return {.rate = r,
            .burst = b.burst,
            .prefetch = static_cast<amount>(ahead),
            .prefetch_time = lease};
}

any_shared_limiter make_limiter(boost::asio::any_io_executor const& ex,
                                std::shared_ptr<weir::store> at, std::string const& name,
                                policy::shared_bucket const& bucket, duration lease) {
    auto const options = options_of(bucket, lease);
    return bucket.window == 0
               ? any_shared_limiter(std::in_place_index<0>, ex, std::move(at), name, options)
               : any_shared_limiter(std::in_place_index<1>, ex, std::move(at), name, options);
}

}  // namespace

bool limit::is_worth(policy::shared_bucket const& bucket, duration lease) {
    constexpr double fewest = 4;
    return bucket.burst >= 2 && permits_in(lease, rate_of(bucket)) >= fewest;
}

limit::limit(boost::asio::any_io_executor const& ex, std::shared_ptr<weir::store> at,
             std::string const& name, policy::shared_bucket const& bucket, duration lease)
    : bucket_(bucket),
      lease_(lease),
      limiter_(make_limiter(ex, std::move(at), name, bucket, lease)) {}

bool limit::is_for(policy::shared_bucket const& bucket) const noexcept {
    return bucket.drained == bucket_.drained && bucket.permit == bucket_.permit &&
           bucket.burst == bucket_.burst && bucket.window == bucket_.window;
}

void limit::use(policy::shared_bucket const& bucket) {
    std::visit([&](auto& l) { l.configure(options_of(bucket, lease_)); }, limiter_);
    bucket_ = bucket;
}

permit limit::take_now(take const& q) {
    auto found = std::visit([&](auto& l) { return l.try_enter_up_to(q.max); }, limiter_);
    if (found.count() < q.min)
        found.refund();
    return found;
}

answer limit::grant(take const& q, permit p) {
    auto const now = clock_time();
    forget_old(now);
    if (p.count() < q.max) {
        auto more =
            std::visit([&](auto& l) { return l.try_enter_up_to(q.max - p.count()); }, limiter_);
        if (more)
            p.merge(std::move(more));
    }
    auto const time = std::chrono::duration_cast<microseconds>(now.time_since_epoch()).count();
    last_since_ = std::max(last_since_ + 1, std::int64_t{time});
    answer const made{.id = q.id, .granted = p.count(), .since = last_since_};
    // Permits that are refilled by then are not worth giving back.
    constexpr std::int64_t longest = microseconds(std::chrono::hours(24)).count();
    auto const refill = bucket_.window != 0 ? bucket_.window : bucket_.time_of(p.count());
    auto const until = later(now, q.timeout + microseconds(std::min(refill, longest)));
    if (granted_.size() == most_records)
        granted_.pop_front();
    granted_.push_back(grant_record{last_since_, until, std::move(p)});
    return made;
}

bool limit::take_back(amount count, std::int64_t since) {
    forget_old(clock_time());
    auto const found = std::ranges::lower_bound(granted_, since, {}, &grant_record::since);
    bool const is_known =
        found != granted_.end() && found->since == since && found->granted.count() >= count;
    if (is_known)
        found->granted.split(count).refund();
    return is_known;
}

void limit::forget_old(time_point now) {
    while (!granted_.empty() && granted_.front().until <= now)
        granted_.pop_front();
}

std::string limit::failure() const {
    return std::visit([](auto const& l) { return l.last_failure().text; }, limiter_);
}

bool limit::is_idle() const {
    return std::visit([](auto const& l) { return l.stats().waiting == 0; }, limiter_);
}

}  // namespace weir::inline v0_2::agent::detail
