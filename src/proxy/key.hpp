#pragma once

#include <weir/amount.hpp>

#include "asking.hpp"
#include "config/configuration.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace proxy {

/// What tells the requests of a limit apart: a number for each key. A client alone is its `weir::client_key`; all else is
/// hashed, with a seed of this process, so that nobody finds two that are taken for one.
class keys_of_requests {
public:
    explicit keys_of_requests(config::limit const& c);

    [[nodiscard]] std::uint64_t of(asking const& who) const;
    /// Of what stands in the configuration: a client, or the value of the one part that the key has.
    [[nodiscard]] std::uint64_t of(std::string const& text) const;

private:
    [[nodiscard]] std::uint64_t client(boost::asio::ip::address const& address) const;

    std::vector<config::key_part> parts_;
    int v4_prefix_;
    int v6_prefix_;
};

/// How a request stands in the queue of a limit: what its order goes by.
class place_in_queue {
public:
    explicit place_in_queue(config::limit const& c);

    [[nodiscard]] weir::request of(asking const& who) const {
        return fair_ || priority_ ? standing_of(who) : weir::request();
    }

private:
    [[nodiscard]] weir::request standing_of(asking const& who) const;

    bool fair_;  // each client in turn
    std::optional<std::string> priority_;
    int v4_prefix_;
    int v6_prefix_;
};

}  // namespace proxy
