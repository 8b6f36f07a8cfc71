#pragma once

#include "config/configuration.hpp"
#include "net/asio.hpp"
#include "net/listener.hpp"
#include "plan.hpp"
#include "tool/systemd.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace proxy {

/// Resolves the address of a listener. Throws `std::runtime_error` with the reason on failure.
[[nodiscard]] net::endpoint endpoint_of(config::listen_address const& at);

/// The reason, in words, for a failure to listen on an address.
[[nodiscard]] std::string why_not(net::error_code ec);

/// The listening sockets of the current configuration.
class listeners {
public:
    /// `most`: the largest number of open connections.
    listeners(asio::io_context& context, std::int64_t most) : listener_(context, most) {}

    /// Sockets that were opened for a new configuration. The destructor closes them, unless `keep` was called.
    class opening {
    public:
        explicit opening(net::listener& l) noexcept : listener_(l) {}
        opening(opening&&) noexcept = default;
        ~opening();

        /// Keeps the sockets, and accepts on them if `start` was called. Call it when the threads that serve their
        /// connections know the new plan.
        void keep();

    private:
        friend class listeners;
        net::listener& listener_;
        std::vector<net::listener::acceptor*> opened_;
    };

    /// Opens the listeners of the new plan that are not open yet. If it cannot open one of them, it opens none and throws
    /// `std::runtime_error`.
    [[nodiscard]] opening open(plan_maker const& maker);
    /// Applies `c`: closes the listeners that it does not name, and sets the modes of the files of the others.
    void follow(config::configuration const& c);

    /// Throws `std::runtime_error` if a server of the new plan is one of these listeners: a request would return to
    /// this proxy until no connection is left.
    void check_for_loops(plan_maker const& maker) const;

    [[nodiscard]] net::listener::acceptors_list const& all() const noexcept {
        return listener_.acceptors();
    }
    void start(net::listener::handlers h) { listener_.start(std::move(h)); }
    void close() { listener_.close(); }

private:
    void open(config::listener const& l, std::size_t number, opening& o);
    [[nodiscard]] bool is_open(std::string const& name) const;

    net::listener listener_;
    std::vector<std::pair<std::string, int>> inherited_ =
        tool::inherited_sockets();  // those without a listener yet
};

}  // namespace proxy
