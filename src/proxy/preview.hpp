#pragma once

#include <weir/time.hpp>

#include "arrivals.hpp"
#include "config/configuration.hpp"

#include <atomic>
#include <cstdint>
#include <string>

namespace proxy {

/// Why the record of a limit cannot show the effect of another rule; empty if it can.
[[nodiscard]] std::string why_no_preview(config::limit const& l);

/// The effect of a rule on the requests of a record.
struct rule_effect {
    std::string rule;
    std::uint64_t granted = 0;
    std::uint64_t rejected = 0;  // for a dry run, the requests that it would have rejected
    std::uint64_t waited = 0;    // of the granted requests
    weir::duration
        p99_wait{};  // of the granted requests; a request granted immediately waited for 0

    friend bool operator==(rule_effect const&, rule_effect const&) = default;
};

/// The effects of the present and of another rule on the same requests.
struct preview {
    weir::duration over{};       // the time from the first instant of the record to the last
    std::uint64_t requests = 0;  // in this time; an estimate if the record is thinned
    double kept = 1;             // the part of them that the record has
    rule_effect now;
    rule_effect then;
};

/// The largest number of requests of a preview, which takes about a second of processor time. If there are more, it is
/// over a shorter time.
inline constexpr std::uint64_t most_previewed = 512 * 1024;

/// Replays a record through the limiters of two configurations of a limit. It returns early, with any result, once
/// `stop` is true. Precondition: `why_no_preview(now)` is empty, and `then` differs by its rule only.
[[nodiscard]] preview make_preview(config::limit const& now, config::limit const& then,
                                   arrivals::copy const& record, std::atomic<bool> const& stop);

/// Previews the smallest multiple of the present rule that rejects few requests: at most a hundredth of all and a tenth of
/// what the present rule rejects. The multiples are the powers of 1.1 below 10, and 10, which is the result if none
/// suffices. If the present rule rejects nothing, it is the result. At most a quarter of `most_previewed` requests are
/// replayed, at most seven times. Otherwise as `make_preview`.
[[nodiscard]] preview find_larger_rule(config::limit const& now, arrivals::copy const& record,
                                       std::atomic<bool> const& stop);

/// The response to a request for a preview. Times are in seconds.
[[nodiscard]] std::string to_json(preview const& p);

}  // namespace proxy
