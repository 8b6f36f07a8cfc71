#pragma once

#include <weir/policy/cooling_log.hpp>

namespace weir {

struct sliding_log_options {
    /// How many permits any window may see, 1 to 67,108,864.
    amount limit = 1;

    /// The length of the window, at least a nanosecond.
    duration window = std::chrono::seconds(1);
};

namespace policy {

/// The exact rate limit: every grant is remembered until it has cooled for `window`.
///
/// Guarantee: at most `limit` permits are granted in any half-open window of that length, wherever
/// it starts; a permit granted at `g` is free again at `g + window` sharp. It cools from the grant,
/// not from when it is used or comes home. Permits that were merged, or settled upwards, are given back
/// as long as the oldest of them has not cooled.
/// Formula: permit number u may be granted once number u - limit has been cooling for `window`.
/// Memory: 16 bytes for each grant that still cools, `limit` of them at most, set aside at once.
/// Source: the sliding-window log; here it descends from an Erlang server that hands out tokens and
/// lets each cool before it goes back into the bag.
class sliding_log_rule : public cooling_log {
public:
    using options_type = sliding_log_options;

    explicit sliding_log_rule(options_type const& options);

    [[nodiscard]] options_type const& options() const noexcept { return options_; }

private:
    options_type options_;
};

using sliding_log = ruled<sliding_log_rule>;

}  // namespace policy
}  // namespace weir
