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

/// The response to a request that changes a limit.
struct answer {
    unsigned status = 200;
    std::string text;
};

/// The HTTP server for operators: `/` and `/events`, `/stats.json`, `/metrics`, `/healthz`, `/readyz`, `PUT
/// /limits/NAME`, and `POST` to `/limits/NAME/preview` and `/limits/NAME/undo`. Use it only on the thread of its
/// context.
class site {
public:
    struct handlers {
        std::function<state()> look;  // the current state; the site adds the recent history
        std::function<admin::guard()> guard;
        /// Applies the text of a rule to the limit of that name, for a client.
        std::function<answer(std::string_view limit, std::string_view rule,
                             std::string const& client)>
            change;
        /// Restores the rule that the last change of the limit of that name replaced, for a client.
        std::function<answer(std::string_view limit, std::string const& client)> undo;
        /// Finds the effect of the text of a rule on the recent requests of the limit of that name; of a larger rule
        /// that rejects few if the text is empty. With status 200, the text is JSON.
        std::function<net::task<answer>(std::string limit, std::string rule)> preview;
        std::function<void(std::string)> trouble;  // gets the error that prevents accepting
    };

    /// A sufficient number of concurrent connections. Four in five may watch `/events`, one in ten may be served any other
    /// path, and one in twenty `/metrics`, so that connections remain for new clients, `/healthz` and `/readyz`. If there
    /// are too few, the connection that has sent no request for the longest time is closed.
    static constexpr std::int64_t most_connections = 160;

    /// Creates a server with at most `connections` connections. `dog` and everything that `h` calls must outlive it.
    /// A request that is being served still uses them after the destruction of the site: the context must not be run or
    /// polled after that.
    site(net::asio::io_context& context, net::watchdog& dog, std::int64_t connections, handlers h);
    site(site const&) = delete;
    ~site();

    /// Listens on `at`. Throws `boost::system::system_error` if it cannot.
    void open(net::endpoint const& at, std::string name);
    /// The listening socket; null if there is none.
    [[nodiscard]] net::listener::acceptor const* acceptor() const;

    void start();
    /// Records the current state and sends it to all watchers. Call it once a second after `start`.
    void go_on();
    /// Counts `times` rejections of a client by a limit, at most `error` of them wrongly.
    void count(rejected_by const& who, std::uint64_t times, std::uint64_t error);

private:
    struct core;
    std::shared_ptr<core> core_;
};

/// The HTML of the page.
[[nodiscard]] std::string_view page() noexcept;

}  // namespace admin
