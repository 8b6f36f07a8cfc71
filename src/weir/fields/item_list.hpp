#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::inline v0_2::detail {

/// A string of a list, with the parameters that matter here: integers of at least 0, of several the last one.
struct quota_item {
    std::string name;
    std::optional<std::int64_t> r;
    std::optional<std::int64_t> t;
    std::optional<std::int64_t> q;
};

/// Returns the strings of a list of RFC 9651, and ignores its other members; empty if `text` is not such a list.
[[nodiscard]] std::vector<quota_item> read_item_list(std::string_view text);

}  // namespace weir::inline v0_2::detail
