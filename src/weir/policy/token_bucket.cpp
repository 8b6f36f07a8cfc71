#include <weir/policy/token_bucket.hpp>

#include "../check_option.hpp"

#include <algorithm>

namespace weir::inline v0_2::policy {
namespace {

amount burst_of(token_bucket_options const& options) {
    return options.burst.value_or(std::max<amount>(options.rate.permits(), 1));
}

token_bucket_options const& checked(token_bucket_options const& options) {
    auto const burst = burst_of(options);
    detail::check_option("token_bucket", "burst", burst, 1, max_amount);
    detail::check_option("token_bucket", "initial", options.initial.value_or(burst), 0, burst);
    detail::check_option("token_bucket", "refill", options.refill, refill::interval);
    detail::check_option("token_bucket", "carry_over", options.carry_over, carry_over::reset);
    return options;
}

}  // namespace

token_bucket_rule::token_bucket_rule(options_type const& options)
    : options_(checked(options)),
      even_(options.rate, burst_of(options)),
      beats_(options.rate, burst_of(options)),
      by_intervals_(options.refill == refill::interval) {}

token_bucket_rule::state_type token_bucket_rule::begin(time_point now) const noexcept {
    auto const missing = capacity() - options_.initial.value_or(capacity());
    return filled(missing * measure().permit, now, now);
}

void token_bucket_rule::take_over(state_type& s, token_bucket_rule const& old,
                                  state_type const& before, time_point now) const noexcept {
    if (options_.carry_over == carry_over::reset) {
        s = begin(now);
        return;
    }
    auto const mine = measure();
    auto const theirs = old.measure();
    auto const room = theirs.full - old.level(before, now);
    auto const tokens = std::min(mine.carried(room, theirs, options_.carry_over), mine.full);
    bool const same_beat =
        by_intervals_ && old.by_intervals_ && beats_.period() == old.beats_.period();
    auto const beat = same_beat ? old.beats_.at(beat_of(before), now).beat : now;
    s = filled(mine.full - tokens, beat, now);
}

bool token_bucket_rule::are_alike(state_type const& a, state_type const& b,
                                  time_point now) const noexcept {
    if (!by_intervals_)
        return even_.are_equal({a.of_either}, {b.of_either}, now);
    auto const one = beats_.at(beat_of(a), now);
    auto const other = beats_.at(beat_of(b), now);
    return one.beat == other.beat && one.level == other.level;
}

token_bucket_rule::state_type token_bucket_rule::filled(drops level, time_point beat,
                                                        time_point now) const noexcept {
    if (!by_intervals_)
        return {even_.filled(level, now).empty};
    constexpr auto most = drops{1} << 62;
    return {std::bit_cast<drops>(
        interval_bucket::state{beat, static_cast<amount>(std::min(level, most))})};
}

}  // namespace weir::inline v0_2::policy
