#include "date.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace proxy {

std::string_view date::now() {
    auto const now = std::time(nullptr);
    if (now != of_) {
        of_ = now;
        text_ = fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT", fmt::gmtime(now));
    }
    return text_;
}

}  // namespace proxy
