#pragma once

#include <chrono>
#include <string_view>

namespace weir::inline v0_2 {

namespace detail {
class zone_rules;
}

/// A time zone of the IANA database, such as `Europe/Berlin`: the differences between its clock and UTC at any instant.
///
/// An object is as small as a pointer. The file of a zone is read once per process, and never again: a program must be started
/// again to see an update of the database. All members are thread-safe.
class time_zone {
public:
    /// An instant, in seconds since 1970.
    using instant = std::chrono::sys_seconds;

    /// A period in which the difference from UTC is constant.
    struct period {
        instant begin;  ///< its first instant; `instant::min()` if it has none
        instant end;    ///< the first instant after it; `instant::max()` if it never ends
        std::chrono::seconds
            offset;  ///< the time of the zone less UTC, at most 26 hours in either direction
    };

    /// UTC. It needs no file.
    time_zone() noexcept = default;

    /// The zone `name`; `UTC` needs no file. Otherwise it reads the file of that name in the folder that the environment
    /// variable `TZDIR` names, by default `/usr/share/zoneinfo`. The file must be of version 2 or later of the format
    /// (RFC 9636) and without leap seconds.
    ///
    /// @throws std::invalid_argument that names the zone, the file and the reason, if `name` is not a name of a zone, or
    /// the file cannot be read or is broken
    explicit time_zone(std::string_view name);

    /// Returns the name of the zone. It is valid until the process ends.
    [[nodiscard]] std::string_view name() const noexcept;

    /// Returns the period that contains `t`. It takes no lock and allocates no memory.
    ///
    /// Before the first change in the file, the first entry of the file applies. After the last one, the rule at the end
    /// of the file applies, up to the year 9999.
    [[nodiscard]] period at(instant t) const noexcept;

    /// Compares the names, and the folders from which the zones were read.
    friend bool operator==(time_zone, time_zone) noexcept = default;

private:
    detail::zone_rules const* rules_ = nullptr;  // never destroyed; null for UTC
};

}  // namespace weir::inline v0_2
