#pragma once

#include "configuration.hpp"
#include "table_reader.hpp"

namespace config {

/// Reads the table `tree` of a limit, if it exists; `key` and `max_keys` must be read already. Reports each member of the
/// limit that excludes a tree. Returns whether there is a valid tree.
bool read_tree(table_reader& t, limit& l);

/// Formats a node without its path, as the table `tree` has it.
[[nodiscard]] std::string to_string(weir::rate_tree_node const& node);

}  // namespace config
