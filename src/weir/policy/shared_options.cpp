#include <weir/policy/shared_bucket.hpp>
#include <weir/policy/shared_options.hpp>

#include "../check_option.hpp"
#include "shared_numbers.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace weir::inline v0_2 {
namespace {

__extension__ using wide = __int128;

// The rate in drops, in lowest terms, so that the numbers stay small.
struct drops_of_rate {
    wide drained;
    wide permit;
};
drops_of_rate in_drops(rate const& r) {
    auto const drained = wide{r.permits()} * 1000;  // per microsecond
    auto const permit = wide{r.period().count()};
    auto a = drained;
    auto b = permit;
    while (b != 0)
        a = std::exchange(b, a % b);
    return {drained / a, permit / a};
}

amount burst_of(shared_options const& o) {
    return o.burst.value_or(o.rate.permits());
}

}  // namespace

void validate(shared_options const& o) {
    using policy::most_level;
    constexpr std::string_view where = "shared limiter";
    auto const check_time =
        [&](std::string_view option, duration value, duration least, duration most) {
            detail::check_duration(where, option, value, least, most);
        };
    using namespace std::chrono_literals;
    detail::check_option(where, "permits of rate", o.rate.permits(), 1, max_amount);
    detail::check_option(where, "burst", burst_of(o), 1, 500'000'000);
    check_time("reach", o.reach, 0s, 60s);
    if (o.timeout)
        check_time("timeout", *o.timeout, 1us, 60s);
    detail::check_option(where, "prefetch", o.prefetch, 0, 500'000'000);
    if (o.prefetch_time)
        check_time("prefetch_time", *o.prefetch_time, 1ms, 60s);
    policy::validate(where, o.retry);
    if (auto const* const local = std::get_if<fail_local>(&o.on_failure))
        detail::check_option(where, "share of fail_local", local->share, 1e-6, 1);

    check_time("period of rate", o.rate.period(), 1ns, 24h * 3650);

    // A store that counts in 64 bits must not overflow in any product.
    auto const [drained, permit] = in_drops(o.rate);
    auto const most = static_cast<std::int64_t>(most_level / permit);
    detail::check_option(where, "burst, at this rate,", burst_of(o), 1, most);
    constexpr std::int64_t longest_reach = 1'000'000 * 60;
    detail::check_option(
        where, "permits of rate", o.rate.permits(), 1,
        static_cast<std::int64_t>(std::min<wide>(
            max_amount, wide{most_level} / longest_reach * o.rate.permits() / drained)));
}

namespace policy {

void validate_log(shared_options const& o) {
    constexpr std::string_view where = "shared sliding_log";
    detail::check_option(where, "permits of rate", o.rate.permits(), 1, 4096);
    detail::check_option(where, "burst", burst_of(o), o.rate.permits(), o.rate.permits());
    validate(o);
}

std::optional<token_bucket_options> local_share_of(shared_options const& o) {
    auto const* const local = std::get_if<fail_local>(&o.on_failure);
    if (!local)
        return std::nullopt;
    auto const period = std::chrono::duration<double, std::nano>(o.rate.period()) / local->share;
    auto const burst = static_cast<double>(burst_of(o)) * local->share;
    return token_bucket_options{.rate = {o.rate.permits(), period},
                                .burst = std::max<amount>(static_cast<amount>(burst), 1)};
}

shared_bucket shared_bucket::of(shared_options const& o) noexcept {
    auto const [drained, permit] = in_drops(o.rate);
    return {static_cast<std::int64_t>(drained), static_cast<std::int64_t>(permit), burst_of(o)};
}

shared_bucket shared_bucket::log_of(shared_options const& o) noexcept {
    auto b = of(o);
    b.window = std::chrono::ceil<std::chrono::microseconds>(o.rate.period()).count();
    return b;
}

std::int64_t shared_bucket::time_of(amount n) const noexcept {
    if (window != 0)
        return 0;
    return static_cast<std::int64_t>(
        std::min(wide{n} * permit / drained, wide{std::numeric_limits<std::int64_t>::max()}));
}

}  // namespace policy
}  // namespace weir::inline v0_2
