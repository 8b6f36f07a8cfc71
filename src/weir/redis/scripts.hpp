#pragma once

#include <weir/error.hpp>
#include <weir/policy/fed.hpp>
#include <weir/policy/fed_seats.hpp>

#include "replies.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The scripts for the server. All times are microseconds since 1970. All numbers are whole and below 2^53, because a
// script counts in doubles.

namespace weir::inline v0_2::redis::detail {

/// The scripts. A key expires a while after it stopped to matter.
///
/// Each line gives the key, the arguments and the reply:
/// - `take`: bucket; drained permit full owed least most ahead; granted wait now is_new
/// - `give_back`: bucket; drained permit full owed count since; whether it was done
/// - `seats_hold`: seats; seats lease confirm holder number fence known keep least most yields channel; held fence wait
///   waits ahead now. It also publishes the messages for other holders.
/// - `log_take`: log; limit window least most ahead; granted wait now is_new
/// - `log_give_back`: log; limit window count since; whether it was done
///
/// `now` is the time of the log, if there is one. With a grant, `wait` is the time until it may be used. Otherwise it
/// is the time until another question is useful, or 0 if that is unknown.
enum class script : std::uint8_t {
    take,
    give_back,
    seats_hold,
    log_take,
    log_give_back,
};
inline constexpr std::size_t script_count = 5;

/// Returns the script without its head, which defines `now` and `put(key, value, us)`.
[[nodiscard]] std::string body_of(script which);
/// Returns the script with its head, which uses the time of the server.
[[nodiscard]] std::string const& text_of(script which);

/// Returns the script that checks the keys of a limiter, its bucket, its log and its seats, and whether the server may
/// evict them. It changes nothing.
[[nodiscard]] std::string_view check_text() noexcept;

/// Returns the key of a script for a limiter. The part in braces selects the node of a cluster.
[[nodiscard]] std::string key_of(script which, std::string_view name);

/// Throws `std::invalid_argument` if a script cannot count this bucket exactly.
void validate(policy::shared_bucket const& b);

[[nodiscard]] std::vector<std::string> arguments_of(policy::fed::question const& q);
[[nodiscard]] std::vector<std::string> arguments_of(policy::fed::give_back const& what);

[[nodiscard]] std::vector<std::string> arguments_of(policy::fed_seats::question const& q);
/// Returns the name of the channel for the messages of `seats_hold`.
[[nodiscard]] std::string channel_name(std::uint64_t channel);
/// Returns such a message; `nullopt` if it is invalid.
[[nodiscard]] std::optional<policy::fed_seats::notice> notice_of(std::string_view text) noexcept;

/// Returns the reply of `take`, `log_take` or `seats_hold`; sets the error if it is invalid.
[[nodiscard]] policy::fed::answer answer_of(reply& said, policy::fed::question const& q) noexcept;
[[nodiscard]] policy::fed_seats::answer answer_of(reply& said,
                                                  policy::fed_seats::question const& q) noexcept;

}  // namespace weir::inline v0_2::redis::detail
