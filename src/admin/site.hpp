#pragma once

#include "guard.hpp"
#include "history.hpp"
#include "net/asio.hpp"
#include "net/listener.hpp"
#include "net/watchdog.hpp"
#include "state.hpp"

#include <boost/asio/ip/address.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace admin {

/// The answer to a request that changes something.
struct answer {
    unsigned status = 200;
    std::string text;
};

/// What an operator sees, by HTTP: `/` and `/events`, `/stats.json`, `/metrics`, `/healthz`, `/readyz`, and `PUT
/// /limits/NAME`. On the thread of one context.
class site {
public:
    struct handlers {
        std::function<state()> look;  // what is now; the site adds what was lately
        std::function<admin::guard()> guard;
        /// The text of a rule for the limit of that name, from a client.
        std::function<answer(std::string_view limit, std::string_view rule,
                             std::string const& client)>
            change;
        std::function<void(std::string)> trouble;  // why nobody is let in
    };

    /// More connections at a time it does not need. Four in five may watch `/events`.
    static constexpr std::int64_t most_connections = 160;

    /// With at most so many connections. `dog` must outlive it, and what it calls as well.
    site(net::asio::io_context& context, net::watchdog& dog, std::int64_t connections, handlers h);
    site(site const&) = delete;
    ~site();

    /// Listens there. Throws `boost::system::system_error`.
    void open(net::endpoint const& at, std::string name);
    /// Null if it listens nowhere.
    [[nodiscard]] net::listener::door const* door() const;

    void start();
    /// To be called once a second, from then on.
    void go_on();
    /// So often a limit has rejected a client.
    void count(rejected_by const& who, std::uint64_t times, std::uint64_t error);

private:
    struct core;
    std::shared_ptr<core> core_;
};

/// The page, whole.
[[nodiscard]] std::string_view page() noexcept;

}  // namespace admin
