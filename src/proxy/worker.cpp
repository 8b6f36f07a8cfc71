#include "worker.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

namespace proxy {

std::string_view worker::date() {
    auto const now = std::time(nullptr);
    if (now != date_of_) {
        date_of_ = now;
        date_ = fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT", fmt::gmtime(now));
    }
    return date_;
}

}  // namespace proxy
