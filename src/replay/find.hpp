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

/// A number that is looked for: that of a rule, as in `100/1s` or `32 seats`, or a patience, in milliseconds.
class unknown {
public:
    /// `100/1s per client`, `32 seats`, `NAME: 32 seats` (of a file), `patience 500ms`: the number in it says nothing. Throws
    /// `tool::usage_error`.
    [[nodiscard]] static unknown parse(std::string_view text);

    /// `p` with `n` in the place of it.
    [[nodiscard]] plan with(plan p, std::int64_t n) const;
    /// The text with `n` in it.
    [[nodiscard]] std::string text(std::int64_t n) const;
    /// The least and the most that make sense.
    [[nodiscard]] std::int64_t min() const noexcept;
    [[nodiscard]] std::int64_t max() const noexcept;

    [[nodiscard]] std::optional<rule> const& example() const noexcept { return rule_; }

private:
    std::optional<rule> rule_;  // otherwise it is the patience
    std::string before_;        // the number: the name of a limit
    std::string behind_;        // the number
};

/// The smallest number for which no more than a part of the requests is rejected.
struct found_number {
    std::optional<std::int64_t> number;
    std::vector<outcome>
        neighbours;  // of the numbers around it; of the greatest that was tried, if there is none
};

/// `replay` says what becomes of the requests by each of some plans. What is rejected is taken to be less for a greater
/// number; the neighbours show it.
[[nodiscard]] found_number find(
    plan const& p, unknown const& what, double max_rejected,
    std::function<std::vector<outcome>(std::vector<plan> const&)> const& replay);

}  // namespace replay
