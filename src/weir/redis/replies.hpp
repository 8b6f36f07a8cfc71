#pragma once

#include <weir/error.hpp>
#include <weir/policy/outage.hpp>
#include <weir/time.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weir::inline v0_2::redis::detail {

struct address;

/// The result of a command: a reply, or an error.
struct reply {
    error_code error = {};
    /// With an error: whether the command may have had an effect nevertheless.
    bool lost = false;
    /// With an error: how the command failed.
    failure_kind kind = failure_kind::refused;
    /// With an error: the time until the next attempt to connect; 0 without a pause.
    duration again_in{};
    /// The reply of the server, if that is text, or the reason of the error.
    std::string text = {};
    /// The numbers of a reply that is a list, in order.
    std::vector<std::int64_t> numbers = {};
    /// The texts of a reply that is a list, in order.
    std::vector<std::string> texts = {};
    /// The server that replied to `seats_hold`.
    std::shared_ptr<address const> from = {};
};

/// Returns the error code for an error reply of the server.
[[nodiscard]] error_code error_of(std::string_view text) noexcept;
/// Returns the words that explain an error reply whose own words do not suffice; otherwise an empty text.
[[nodiscard]] std::string_view advice_on(std::string_view text) noexcept;
/// Returns whether a node of a cluster reports that it cannot serve the key: it has left the cluster, or is cut off, or
/// the cluster lacks a node.
[[nodiscard]] inline bool says_cluster_is_down(std::string_view text) noexcept {
    return text.starts_with("CLUSTERDOWN");
}
/// Returns how a command failed for which the server gave this reason.
[[nodiscard]] failure_kind kind_of(error_code const& ec, std::string_view text) noexcept;

}  // namespace weir::inline v0_2::redis::detail
