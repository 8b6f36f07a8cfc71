#pragma once

#include "admin/state.hpp"
#include "config/configuration.hpp"
#include "gate.hpp"
#include "routes.hpp"
#include "upstream.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace proxy {

/// The result of a connection of any protocol.
enum class tcp_ending : std::uint8_t {
    served,        // it reached a server
    rejected,      // by a limit
    disconnected,  // the client left before it reached a server
    failed,        // no server accepted a connection
};

/// Counts the connections of a listener, on any thread.
struct tcp_counter {
    using number = std::atomic<std::uint64_t>;

    number active = 0;   // connections to a server
    number waiting = 0;  // in the queues of limits
    number sent_up = 0;  // bytes
    number sent_down = 0;
    std::array<number, admin::tcp_state::results.size()> ended{};

    /// Adds 1 to a number for its lifetime.
    class counted {
    public:
        explicit counted(number& n) noexcept : in_(n) { in_.fetch_add(1); }
        counted(counted const&) = delete;
        ~counted() { in_.fetch_sub(1); }

    private:
        number& in_;
    };

    void count(tcp_ending how) noexcept { ++ended[static_cast<std::size_t>(how)]; }
};

/// A listener for connections of any protocol: the limits that they must pass, and their upstream.
struct tcp_service {
    std::string name;  // the address of the listener
    config::tcp_options configuration;
    gate entrance;
    route_bandwidth bandwidth;
    std::shared_ptr<upstream> to;
    std::shared_ptr<tcp_counter> counts;

    [[nodiscard]] admin::tcp_state state() const;
};

/// The name of a service for operators: `tcp 0.0.0.0:5432`.
[[nodiscard]] inline std::string service_name(std::string const& listener) {
    return "tcp " + listener;
}

}  // namespace proxy
