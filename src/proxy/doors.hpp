#pragma once

#include "config/configuration.hpp"
#include "net/asio.hpp"
#include "net/listener.hpp"
#include "plan.hpp"
#include "tool/systemd.hpp"

#include <cstdint>
#include <list>
#include <string>
#include <utility>
#include <vector>

namespace proxy {

/// Where to listen. Throws `std::runtime_error` that says why that is not known.
[[nodiscard]] net::endpoint endpoint_of(config::listen_address const& at);

/// Why nothing can listen there.
[[nodiscard]] std::string why_not(net::error_code ec);

/// The doors that the configuration in force names.
class doors {
public:
    /// At most so many connections are open at a time.
    doors(asio::io_context& context, std::int64_t most) : listener_(context, most) {}

    /// Doors that have been opened for a configuration, and are closed again unless it comes into force.
    class opening {
    public:
        explicit opening(net::listener& l) noexcept : listener_(l) {}
        opening(opening&&) noexcept = default;
        ~opening();

        void keep() noexcept { opened_.clear(); }

    private:
        friend class doors;
        net::listener& listener_;
        std::vector<net::listener::door*> opened_;
    };

    /// Opens what `c` names and is not open yet: all of it, or `std::runtime_error` says what cannot be opened.
    [[nodiscard]] opening open(config::configuration const& c);
    /// From now on there are those that `c` names, as it wants them.
    void follow(config::configuration const& c);

    /// Throws `std::runtime_error` if a request could come back by one of its servers: it would go round until no connection
    /// is left.
    void check_for_loops(plan_maker const& maker) const;

    [[nodiscard]] std::list<net::listener::door> const& all() const noexcept {
        return listener_.doors();
    }
    void start(net::listener::handlers h) { listener_.start(std::move(h)); }
    void close() { listener_.close(); }

private:
    void open(config::listener const& l, opening& o);
    [[nodiscard]] bool is_open(std::string const& name) const;

    net::listener listener_;
    std::vector<std::pair<std::string, int>> inherited_ =
        tool::inherited_sockets();  // and not taken yet
};

}  // namespace proxy
