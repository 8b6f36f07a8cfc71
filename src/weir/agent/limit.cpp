#include "limit.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace weir::inline v0_2::agent::detail {
namespace {

// The rate whose bucket is `b`, in lowest terms.
rate rate_of(policy::shared_bucket const& b) {
    if (b.window != 0)
        return {b.burst, std::chrono::microseconds(b.window)};
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

}  // namespace

bool is_worth(policy::shared_bucket const& bucket, duration lease) {
    constexpr double fewest = 4;
    return bucket.burst >= 2 && permits_in(lease, rate_of(bucket)) >= fewest;
}

shared_options options_of(policy::shared_bucket const& bucket, duration lease) {
    auto const r = rate_of(bucket);
    auto const ahead = std::min(permits_in(lease, r), static_cast<double>(bucket.burst));
    shared_options o{.rate = r, .burst = bucket.burst, .prefetch = static_cast<amount>(ahead)};
    o.prefetch_time = lease;
    return o;
}

}  // namespace weir::inline v0_2::agent::detail
