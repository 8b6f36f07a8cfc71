#pragma once

#include <weir/time_zone.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace weir::inline v0_2::detail {

/// The day and the time of a change that happens each year, on the clock before the change.
struct yearly_change {
    enum class kind : std::uint8_t {
        julian,       ///< day 1 to 365; 29 February is never counted
        day_of_year,  ///< day 0 to 365; 29 February is counted
        weekday,      ///< the weekday 0 (Sunday) to 6 in week 1 to 5 of a month; 5 is the last
    };

    kind what = kind::julian;
    unsigned month = 1;
    unsigned week = 1;
    unsigned day = 1;
    std::chrono::seconds time{};  // of the day, from -167 to 167 hours
};

/// The rule at the end of a file: the offset of the zone, and the summer time if there is one.
struct yearly_rule {
    struct summer_time {
        std::chrono::seconds offset;
        yearly_change begin;
        yearly_change end;
    };

    std::chrono::seconds offset{};
    std::optional<summer_time> summer;

    /// Parses the text of POSIX `TZ`, with the additions of RFC 9636; empty if the text is not of that form.
    [[nodiscard]] static std::optional<yearly_rule> parse(std::string_view text) noexcept;
    [[nodiscard]] time_zone::period at(time_zone::instant t) const noexcept;
};

/// The content of a file of a time zone in the format TZif (RFC 9636), version 2 or later.
class zone_rules {
public:
    /// Parses the bytes of a file. Throws `std::invalid_argument` with the reason if they are not in that format. It
    /// reads nothing beyond `bytes`, whatever they are.
    [[nodiscard]] static zone_rules parse(std::string_view bytes);

    [[nodiscard]] time_zone::period at(time_zone::instant t) const noexcept;

    std::string_view name;  // set by the owner

private:
    struct change {
        time_zone::instant at;
        std::chrono::seconds offset;  // from then on
    };

    std::vector<change> changes_;      // ascending
    std::chrono::seconds first_{};     // the offset before the first change
    std::optional<yearly_rule> rule_;  // from the last change on
};

}  // namespace weir::inline v0_2::detail
