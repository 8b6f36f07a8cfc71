#pragma once

#include <weir/policy/cooling_log.hpp>

namespace weir::inline v0_2 {

/// The options of `sliding_log`.
struct sliding_log_options {
    /// The most permits in any window, 1 to 67,108,864.
    amount limit = 1;

    /// The length of the window, at least 1 ns.
    duration window = std::chrono::seconds(1);
};

namespace policy {

/// The exact rate limit: each grant counts for `window` after it.
///
/// Guarantee: at most `limit` permits are granted in any half-open window of that length, wherever it starts. A permit
/// granted at `g` is free again exactly at `g + window`: it expires a window after the grant, independent of its use
/// and release. Merged permits, and permits that `settle` increased, can be refunded until the oldest of them expires.
///
/// Formula: permit number u may be granted a window after permit number u - limit.
///
/// Memory: 16 bytes per grant, from 128 bytes on. It grows with the grants, up to 16 bytes times `limit`. It shrinks with
/// the next grants after they have expired. If memory is lacking, a grant expires together with the next one.
///
/// Source: the sliding-window log; here it descends from an Erlang server that hands out tokens and returns each token
/// to the pool a window later.
class sliding_log_rule : public cooling_log {
public:
    using options_type = sliding_log_options;

    explicit sliding_log_rule(options_type const& options);

    [[nodiscard]] options_type const& options() const noexcept { return options_; }

private:
    options_type options_;
};

/// The policy of `weir::sliding_log`: the exact rate limit.
using sliding_log = ruled<sliding_log_rule>;

}  // namespace policy
}  // namespace weir::inline v0_2
