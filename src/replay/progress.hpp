#pragma once

#include "feed.hpp"

#include <chrono>
#include <cstdint>

namespace replay {

/// A progress line on standard error, if that is a terminal.
class progress_bar {
public:
    progress_bar();

    [[nodiscard]] bool is_shown() const noexcept { return is_terminal_; }
    void show(reading const& r);
    void clear();

private:
    using clock = std::chrono::steady_clock;

    bool is_terminal_;
    bool is_there_ = false;
    clock::time_point begin_ = clock::now();
    clock::time_point last_ = begin_;
    std::uint64_t lines_before_ = 0;  // lines of earlier passes over the logs
    std::uint64_t lines_ = 0;
};

}  // namespace replay
