#pragma once

#include <string>
#include <string_view>

namespace explorer {

/// The events that must never occur, by the name that `--expect` takes.
namespace invariant {
inline constexpr std::string_view room = "room";              // a grant without free permits
inline constexpr std::string_view order = "order";            // overtaken by a later request
inline constexpr std::string_view barging = "barging";        // immediate grant while others wait
inline constexpr std::string_view deadline = "deadline";      // a grant after the deadline
inline constexpr std::string_view asleep = "asleep";          // a wait without need
inline constexpr std::string_view verdict = "verdict";        // rejected or removed without reason
inline constexpr std::string_view closed = "closed";          // a grant after close
inline constexpr std::string_view cancelled = "cancelled";    // a grant after the cancellation
inline constexpr std::string_view conserved = "conserved";    // permits lost or doubled
inline constexpr std::string_view completion = "completion";  // not exactly once, or inline
inline constexpr std::string_view lock = "lock";              // a user's code runs under the lock
inline constexpr std::string_view host = "host";              // timer, work and messages
inline constexpr std::string_view leak = "leak";              // an object is left at the end
inline constexpr std::string_view counts = "counts";          // wrong statistics
inline constexpr std::string_view end = "end";                // the run does not end
inline constexpr std::string_view assertion = "assertion";    // an assertion of the core
inline constexpr std::string_view crash = "crash";
}  // namespace invariant

/// Ends this process: a run has failed.
[[noreturn]] void violated(std::string_view invariant, std::string const& what);

}  // namespace explorer
