#include "arguments.hpp"

#include "text.hpp"

#include <fmt/format.h>

namespace tool {

void reject(std::string const& option, std::string_view value, std::string_view must) {
    throw usage_error(fmt::format("{} is `{}`, but must be {}", option, value, must));
}

std::int64_t integer(std::string const& option, std::string_view value, std::int64_t least,
                     std::int64_t most) {
    auto const n = number_of(value);
    if (!n || *n < least || *n > most)
        reject(option, value, fmt::format("a number from {} to {}", least, most));
    return *n;
}

std::chrono::nanoseconds duration(std::string const& option, std::string_view value,
                                  std::chrono::nanoseconds least, std::chrono::nanoseconds most) {
    auto const d = time_of(value);
    if (!d || *d < least || *d > most)
        reject(option, value,
               fmt::format("a time from {} to {}, such as 500ms, 10s or 2min", to_text(least),
                           to_text(most)));
    return *d;
}

}  // namespace tool
