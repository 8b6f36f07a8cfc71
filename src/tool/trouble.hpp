#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace tool {

/// The severity of a line on standard error, from the highest to the lowest.
enum class level : std::uint8_t { error, warning, info };
/// Returns `error`, `warning` or `info`.
[[nodiscard]] std::string to_string(level l);
/// Parses `error`, `warning` or `info`.
[[nodiscard]] std::optional<level> level_of(std::string_view text);

/// Limits the messages about repeated errors.
///
/// The first occurrence of a text is reported immediately. Its repetitions are counted, and their number is reported
/// once per minute. At most `most` different texts are tracked at a time; while the table is full, an untracked text is
/// reported each time. Use it on one thread.
class troubles {
public:
    using clock = std::chrono::steady_clock;
    static constexpr std::chrono::seconds pause{60};
    static constexpr std::size_t most = 256;

    /// Records `times` occurrences of `text`. Returns the message to report; empty for none.
    [[nodiscard]] std::string tell(std::string_view text, std::uint64_t times,
                                   clock::time_point now);
    /// Returns the messages about texts whose minute is over. A text that did not occur in that minute is no longer
    /// tracked.
    [[nodiscard]] std::string look(clock::time_point now);

private:
    struct known {
        std::uint64_t unsaid = 0;
        clock::time_point until;
    };

    std::map<std::string, known, std::less<>> all_;
};

/// Suppresses lines of a lower severity than `l` from now on. Any thread may call this function.
void set_level(level l) noexcept;
/// Writes lines to standard error, as `complain` does, unless their level is suppressed.
void say(level l, std::string_view text);

/// The text of an exception, without the place in the source that an error code of Boost names.
[[nodiscard]] std::string reason_of(std::exception const& e);

}  // namespace tool
