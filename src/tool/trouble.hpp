#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace tool {

/// How much a line on standard error matters. Later is less.
enum class level : std::uint8_t { error, warning, info };
/// `error`, `warning`, `info`.
[[nodiscard]] std::string to_string(level l);
[[nodiscard]] std::optional<level> level_of(std::string_view text);

/// What of many troubles is to be said: each at once, and then once in a minute how often it has come since. Of troubles that
/// differ in their text, so many are known at a time; what comes beyond is said each time. Any thread.
class troubles {
public:
    using clock = std::chrono::steady_clock;
    static constexpr std::chrono::seconds pause{60};
    static constexpr std::size_t most = 256;

    /// `text` has come so often. What is to be said of it; empty: nothing.
    [[nodiscard]] std::string tell(std::string_view text, std::uint64_t times,
                                   clock::time_point now);
    /// What is to be said of those whose minute is over; they are forgotten if they have not come since.
    [[nodiscard]] std::string look(clock::time_point now);

private:
    struct known {
        std::uint64_t unsaid = 0;
        clock::time_point until;
    };

    std::mutex mutex_;
    std::map<std::string, known, std::less<>> all_;
};

/// Lines that matter less are not written from now on. Any thread.
void set_level(level l) noexcept;
/// Writes the line to standard error, if it matters enough, as `complain` does.
void say(level l, std::string_view text);
/// The same for a trouble that may come often, without the end of the line: see `troubles`.
void tell(level l, std::string_view text, std::uint64_t times = 1);
/// To be called every now and then: says how often troubles have come since they were said.
void tell_how_often();

}  // namespace tool
