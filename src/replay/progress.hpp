#pragma once

#include "feed.hpp"

#include <chrono>
#include <cstdint>
#include <cstdio>

namespace replay {

/// A progress line on a terminal.
class progress_bar {
public:
    using clock = std::chrono::steady_clock;

    /// A line in `to`, which must outlive it, about a reading that began at `begin`.
    explicit progress_bar(std::FILE* to = stderr, clock::time_point begin = clock::now()) noexcept
        : to_(to), begin_(begin), last_(begin) {}

    /// Whether the file is a terminal. In another file, the line would be rubbish.
    [[nodiscard]] bool is_on_terminal() const noexcept;
    /// Writes the line again, at most once per 100 ms.
    void show(reading const& r, clock::time_point now = clock::now());
    /// Erases the line.
    void clear();

private:
    std::FILE* to_;
    bool is_there_ = false;
    clock::time_point begin_;
    clock::time_point last_;
    std::uint64_t lines_before_ = 0;  // lines of earlier passes over the logs
    std::uint64_t lines_ = 0;
};

}  // namespace replay
