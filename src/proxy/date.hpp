#pragma once

#include <ctime>
#include <string>
#include <string_view>

namespace proxy {

/// The value of a Date field, formatted once a second. Used by one thread.
class date {
public:
    /// Returns the current date, valid until the next call.
    [[nodiscard]] std::string_view now();

private:
    std::time_t of_ = 0;
    std::string text_;
};

}  // namespace proxy
