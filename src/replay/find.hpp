#pragma once

#include "outcome.hpp"
#include "plan.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace replay {

/// The number to search for: the number of a rule such as `100/1s`, `32 seats` or `500kB/s down`, or a patience in
/// milliseconds.
class unknown {
public:
    /// Parses `100/1s per client`, `32 seats`, `500kB/s down`, `NAME: 32 seats` (a limit of a file) or `patience 500ms`.
    /// The search ignores the number in the text. Throws `tool::usage_error`.
    [[nodiscard]] static unknown parse(std::string_view text);

    /// Returns `p` with the rule or patience changed to the number `n`.
    [[nodiscard]] plan with(plan p, std::int64_t n) const;
    /// Returns the rule or patience with the number `n`.
    [[nodiscard]] std::string text(std::int64_t n) const;
    /// The smallest number to try.
    [[nodiscard]] std::int64_t min() const noexcept;
    /// The greatest number to try.
    [[nodiscard]] std::int64_t max() const noexcept;

    [[nodiscard]] bool is_patience() const noexcept { return kind_ == kind::patience; }
    /// Whether it is the number of a rate of bytes: it slows responses, and rejects none.
    [[nodiscard]] bool is_of_bytes() const noexcept { return kind_ == kind::bytes; }
    /// Returns the share of the requests that the search keeps small: the rejected ones, or with a rate of bytes the ones
    /// whose response ended later than in the log.
    [[nodiscard]] double share_of(outcome const& o) const noexcept;

private:
    enum class kind : std::uint8_t { requests, bytes, patience };
    kind kind_ = kind::patience;
    std::int64_t max_ = std::chrono::milliseconds(std::chrono::hours(24)).count();
    std::string before_;  // text before the number: `NAME: ` or empty
    std::string behind_;  // text after the number
};

/// The result of a search.
struct found_number {
    std::optional<std::int64_t>
        number;  // the smallest sufficient number; empty if no number is sufficient
    std::vector<outcome>
        neighbours;  // outcomes of `number` - 1, `number` and `number` + 1; of the greatest number tried if empty
};

/// Finds the smallest number for which the plan `p` rejects, or with a rate of bytes slows, at most `most_share` of
/// the requests.
///
/// `replay` returns the outcomes of plans. The search assumes that a greater number makes the share smaller; the
/// neighbours show whether this is so.
[[nodiscard]] found_number find(
    plan const& p, unknown const& what, double most_share,
    std::function<std::vector<outcome>(std::vector<plan> const&)> const& replay);

}  // namespace replay
