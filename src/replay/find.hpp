#pragma once

#include "outcome.hpp"
#include "plan.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace replay {

/// The number to search for: the number of a rule such as `100/1s` or `32 seats`, or a patience in milliseconds.
class unknown {
public:
    /// Parses `100/1s per client`, `32 seats`, `NAME: 32 seats` (a limit of a file) or `patience 500ms`. The search
    /// ignores the number in the text. Throws `tool::usage_error`.
    [[nodiscard]] static unknown parse(std::string_view text);

    /// Returns `p` with the rule or patience changed to the number `n`.
    [[nodiscard]] plan with(plan p, std::int64_t n) const;
    /// Returns the rule or patience with the number `n`.
    [[nodiscard]] std::string text(std::int64_t n) const;
    /// The smallest number to try.
    [[nodiscard]] std::int64_t min() const noexcept;
    /// The greatest number to try.
    [[nodiscard]] std::int64_t max() const noexcept;

    /// The parsed rule; empty for a patience.
    [[nodiscard]] std::optional<rule> const& example() const noexcept { return rule_; }

private:
    std::optional<rule> rule_;  // empty for a patience
    std::string before_;        // text before the number: `NAME: ` or empty
    std::string behind_;        // text after the number
};

/// The result of a search.
struct found_number {
    std::optional<std::int64_t>
        number;  // the smallest sufficient number; empty if no number is sufficient
    std::vector<outcome>
        neighbours;  // outcomes of `number` - 1, `number` and `number` + 1; of the greatest number tried if empty
};

/// Finds the smallest number for which the plan `p` rejects at most the share `max_rejected` of the requests.
///
/// `replay` returns the outcomes of plans. The search assumes that a greater number rejects fewer requests; the
/// neighbours show whether this is so.
[[nodiscard]] found_number find(
    plan const& p, unknown const& what, double max_rejected,
    std::function<std::vector<outcome>(std::vector<plan> const&)> const& replay);

}  // namespace replay
