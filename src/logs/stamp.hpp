#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace logs {

/// A time in a log.
struct stamp {
    std::chrono::nanoseconds at{};  // since 1970 in UTC
    bool whole_second = false;      // the text had no fraction of a second

    friend bool operator==(stamp const&, stamp const&) = default;
};

/// Parses `01/Aug/1995:02:00:00 -0400`, `1995-08-01T02:00:00.123Z` or `807256800.123`; empty for any other text. The
/// first form may have a fraction of a second, too. A time without a zone is in UTC. A number counts seconds, or
/// milliseconds above 10^11, microseconds above 10^14 and nanoseconds above 10^17.
[[nodiscard]] std::optional<stamp> stamp_of(std::string_view text);

/// Parses times like `stamp_of`, and faster if a text equals the previous one.
class stamp_reader {
public:
    [[nodiscard]] std::optional<stamp> operator()(std::string_view text) {
        if (text != text_) {
            found_ = stamp_of(text);
            text_ = text;
        }
        return found_;
    }

private:
    std::string text_;
    std::optional<stamp> found_;
};

/// Whether the text starts with a date without a year, as in syslog: `Feb  6 12:14:14`.
[[nodiscard]] bool lacks_year(std::string_view text) noexcept;

}  // namespace logs
