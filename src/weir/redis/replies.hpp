#pragma once

#include <weir/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weir::redis::detail {

/// What has come of a command: an answer, or an error.
struct reply {
    error_code error = {};
    /// With an error: whether the command may have had an effect all the same.
    bool lost = false;
    /// What the server has said, if that is text, or why there is an error.
    std::string text = {};
    /// The numbers of an answer that is a list of them.
    std::vector<std::int64_t> numbers = {};
};

/// What an error of the server means, by its text.
[[nodiscard]] error_code error_of(std::string_view text) noexcept;

}  // namespace weir::redis::detail
