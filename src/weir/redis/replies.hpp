#pragma once

#include <weir/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weir::inline v0_2::redis::detail {

/// The result of a command: a reply, or an error.
struct reply {
    error_code error = {};
    /// With an error: whether the command may have had an effect nevertheless.
    bool lost = false;
    /// The reply of the server, if that is text, or the reason of the error.
    std::string text = {};
    /// The numbers of a reply that is a list of numbers.
    std::vector<std::int64_t> numbers = {};
};

/// Returns the error code for an error reply of the server.
[[nodiscard]] error_code error_of(std::string_view text) noexcept;

}  // namespace weir::inline v0_2::redis::detail
