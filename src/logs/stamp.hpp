#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace logs {

/// A time as it stands in a log.
struct stamp {
    std::chrono::nanoseconds at{};  // since 1970 in UTC
    bool whole_second = false;      // it was written without a fraction

    friend bool operator==(stamp const&, stamp const&) = default;
};

/// `01/Aug/1995:02:00:00 -0400`, `1995-08-01T02:00:00.123Z`, `807256800.123`: nothing if it is none of them. A
/// fraction of a second may stand in the first one, too, and a time without a zone is in UTC. A number of more than
/// 10^11 is of milliseconds, of more than 10^14 of microseconds, of more than 10^17 of nanoseconds.
[[nodiscard]] std::optional<stamp> stamp_of(std::string_view text);

/// The same, for many lines of which few name another second than the line before.
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

/// Whether the text begins with a date that has no year, as syslog writes it: `Feb  6 12:14:14`.
[[nodiscard]] bool lacks_year(std::string_view text) noexcept;

}  // namespace logs
