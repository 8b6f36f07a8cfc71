#pragma once

#include <weir/amount.hpp>
#include <weir/policy/calendar_cursor.hpp>
#include <weir/policy/limiter_config.hpp>
#include <weir/policy/tree/options.hpp>
#include <weir/time_zone.hpp>

#include <boost/container/small_vector.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace proxy {

/// The quota that one rule gives a client, for RateLimit-Policy.
struct quota {
    weir::amount max = 0;
    std::int64_t seconds = 0;  // of the window; 0 without one, or with `calendar`
    bool at_a_time = false;    // limits concurrent requests
    std::optional<weir::calendar_options> calendar = {};  // the window is a day, a week or a month

    [[nodiscard]] bool has_window() const noexcept { return seconds > 0 || calendar; }

    friend bool operator==(quota const&, quota const&) = default;
};

/// Returns the length of the window of `q` that contains the present, in seconds.
[[nodiscard]] std::int64_t seconds_of_window(quota const& q) noexcept;

/// The quota of each part of a rule; none of a penalty, which does not limit other requests. The window is in whole seconds, rounded up. For a rule with a burst, the window is
/// at least the time that refills the burst, so that a client that keeps to the quota is not rejected.
[[nodiscard]] std::vector<quota> quotas_of(weir::limiter_config const& rule);

/// The quota of each node of a tree of rates, by its number in `tree_plan`. A leaf has the lowest rate on its path: among
/// each `most` and the rate of the root. If rates are equal, the rate of the lowest node counts. The burst is the greatest
/// request that the leaf can ever be granted. The quota of any other node is not used.
///
/// @throws std::invalid_argument as the constructor of `tree_plan`
[[nodiscard]] std::vector<quota> quotas_of(weir::rate_tree_options const& tree);

/// Quotes `name` as a string of structured fields (RFC 9651), which is a JSON string as well. Writes `%` and characters
/// outside printable ASCII like `%c3`.
[[nodiscard]] std::string quoted(std::string_view name);

/// A limit as RateLimit-Policy describes it.
struct policy {
    std::span<std::string const>
        names;  // of the parts of the rule, as `quoted`; one for a rule without parts
    boost::container::small_vector<quota, 4> quotas = {};  // one for each part of the rule

    [[nodiscard]] weir::amount max() const noexcept;  // the smallest quota
    /// Returns the number of the part with the smallest quota.
    [[nodiscard]] std::size_t smallest() const noexcept;
    /// Returns the number of the part that decides when the limiter can grant: after `wait`, or at an unknown time. A
    /// limiter tells the time of its last part only. No part with a window waits for longer than its window, and the
    /// time of a part without a window is unknown. Several parts may be possible: this is the one with the shortest
    /// window, and of equal windows the smallest quota.
    [[nodiscard]] std::size_t part_after(std::optional<std::chrono::seconds> wait) const noexcept;
};

/// Returns the names of the parts of a rule, as `quoted`. The first part has the name of the limit, and the others
/// `NAME#2`, `NAME#3` and so on: each item of RateLimit-Policy has its own name.
[[nodiscard]] std::vector<std::string> names_of_parts(std::string_view name, std::size_t parts);

/// Appends the item of RateLimit-Policy for a part with this name, as `quoted`, without a partition.
void append_item(std::string& out, std::string_view name, quota const& q);

/// The quotas of a limit's rule, which may change. Thread-safe.
class rule_quotas {
public:
    rule_quotas(std::string_view name, weir::limiter_config const& rule);

    /// Precondition: a rule of the same kind.
    void change(weir::limiter_config const& rule);
    /// The current policy, never a mixture of two rules. Takes no lock. The names are valid while this object lives.
    [[nodiscard]] policy now() const;

private:
    // The quota of a part of the rule. Rules of one kind have the same parts.
    struct part {
        std::atomic<weir::amount> max = 0;
        std::atomic<std::int64_t> seconds = 0;
        std::atomic<bool> at_a_time = false;
        std::atomic<bool> has_calendar = false;
        std::atomic<weir::calendar_unit> unit = weir::calendar_unit::day;
        std::atomic<weir::time_zone> zone = weir::time_zone();
        std::atomic<weir::wall_clock> clock = nullptr;
    };

    std::vector<part> parts_;
    std::vector<std::string> const names_;
    std::atomic<std::uint64_t> version_ = 0;  // odd while parts are written
    std::mutex changes_;
};

}  // namespace proxy
