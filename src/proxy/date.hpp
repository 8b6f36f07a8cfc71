#pragma once

#include <ctime>
#include <string>
#include <string_view>

namespace proxy {

/// The time as a Date field has it, written once a second; of one thread.
class date {
public:
    /// Until the next call.
    [[nodiscard]] std::string_view now();

private:
    std::time_t of_ = 0;
    std::string text_;
};

}  // namespace proxy
