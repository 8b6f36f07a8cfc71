#pragma once

#include <string>
#include <string_view>

namespace explorer {

/// What must never happen, by the name that `--expect` takes.
namespace invariant {
inline constexpr std::string_view room = "room";            // granted what there was no room for
inline constexpr std::string_view order = "order";          // overtaken by a later one
inline constexpr std::string_view barging = "barging";      // granted at once while somebody waits
inline constexpr std::string_view deadline = "deadline";    // granted past its deadline
inline constexpr std::string_view asleep = "asleep";        // waits though it need not
inline constexpr std::string_view verdict = "verdict";      // rejected or removed without a reason
inline constexpr std::string_view closed = "closed";        // granted after close
inline constexpr std::string_view cancelled = "cancelled";  // granted after its cancellation
inline constexpr std::string_view conserved = "conserved";  // permits lost or doubled
inline constexpr std::string_view completion = "completion";  // not once, or inline
inline constexpr std::string_view lock = "lock";              // somebody's code under the lock
inline constexpr std::string_view host = "host";              // timer, work and messages
inline constexpr std::string_view leak = "leak";              // something is left in the end
inline constexpr std::string_view counts = "counts";          // the statistics are wrong
inline constexpr std::string_view end = "end";                // there is none
inline constexpr std::string_view assertion = "assertion";    // one of the core's own
inline constexpr std::string_view crash = "crash";
}  // namespace invariant

/// Ends this process: a run has failed.
[[noreturn]] void violated(std::string_view invariant, std::string const& what);

}  // namespace explorer
