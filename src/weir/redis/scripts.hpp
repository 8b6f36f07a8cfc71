#pragma once

#include <weir/error.hpp>
#include <weir/policy/fed.hpp>
#include <weir/policy/fed_seats.hpp>

#include "replies.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// What is said to the server. All times are microseconds since 1970, all numbers are whole and below 2^53: a script
// counts in doubles.

namespace weir::redis::detail {

/// The scripts. A key that expires has been as good as none for a while.
///
/// | script          | keys        | arguments                                 | answer                 |
/// |-----------------|-------------|-------------------------------------------|------------------------|
/// | `take`          | bucket      | drained permit full owed least most ahead | granted wait now       |
/// | `give_back`     | bucket      | drained permit full owed count since      | whether it was done    |
/// | `seats_hold`    | seats       | seats lease holder number fence keep      | held fence wait now    |
/// |                 |             | least most                                |                        |
/// | `log_take`      | log         | limit window least most ahead             | granted wait now       |
/// | `log_give_back` | log         | limit window count since                  | whether it was done    |
///
/// `now` is the time of the log, where there is one. `wait` is, of what was granted, how long until it may be used;
/// otherwise how long until it is worth asking again, or 0 if nobody knows.
enum class script : std::uint8_t {
    take,
    give_back,
    seats_hold,
    log_take,
    log_give_back,
};
inline constexpr std::size_t script_count = 5;

/// The script without its head, which says what `now` is, and what `put(key, value, us)` does.
[[nodiscard]] std::string body_of(script which);
/// The script with its head: the time is that of the server.
[[nodiscard]] std::string const& text_of(script which);

/// The key of a script, for a limiter. What is in braces decides on which server of a cluster it is.
[[nodiscard]] std::string key_of(script which, std::string_view name);

/// Throws `std::invalid_argument` unless a script can count this bucket exactly.
void validate(policy::shared_bucket const& b);

[[nodiscard]] std::vector<std::string> arguments_of(policy::fed::question const& q);
[[nodiscard]] std::vector<std::string> arguments_of(policy::fed::give_back const& what);

[[nodiscard]] std::vector<std::string> arguments_of(policy::fed_seats::question const& q);

/// What `take`, `log_take` or `seats_hold` has answered; sets the error if that is no answer.
[[nodiscard]] policy::fed::answer answer_of(reply& said, policy::fed::question const& q) noexcept;
[[nodiscard]] policy::fed_seats::answer answer_of(reply& said,
                                                  policy::fed_seats::question const& q) noexcept;

}  // namespace weir::redis::detail
