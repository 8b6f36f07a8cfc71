#pragma once

#include <weir/time.hpp>

#include "address.hpp"
#include "connection.hpp"
#include "replies.hpp"
#include "scripts.hpp"

#include <boost/asio/any_completion_handler.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weir::inline v0_2::redis::detail {

class cluster;

/// A script for the server, from its question to its result. It moves from one client to another if it is redirected.
struct script_command final : command {
    using handler = boost::asio::any_completion_handler<void(reply)>;

    std::optional<script> what;  // none: a check
    bool in_full = false;        // the server lacks the script
    std::string key;
    std::vector<std::string> arguments;
    time_point until{};
    time_point since{};  // the time when it was sent
    handler whom;

    std::shared_ptr<cluster> nodes;    // which redirect it
    std::optional<address> elsewhere;  // the node that the reply names
    std::uint8_t redirections = 0;
    bool has_returned = false;  // from a node that failed
};

}  // namespace weir::inline v0_2::redis::detail
