#pragma once

#include "net/asio.hpp"
#include "net/connection.hpp"

#include <memory>
#include <string>
#include <vector>

namespace proxy {

namespace asio = boost::asio;

/// Where requests go.
struct upstream_address {
    net::tcp::endpoint endpoint;
    std::string name;  // as it was given: the Host of requests that have none
};

/// The connections to the upstream that wait for another request, on one thread.
class upstream_pool {
public:
    upstream_pool(asio::io_context& context, net::watchdog& dog, upstream_address const& address,
                  net::clock::duration timeout)
        : context_(context), dog_(dog), address_(address), timeout_(timeout) {}

    /// One that has been used before, the last that came back; null if there is none. What an
    /// upstream has sent on it unasked would be taken for the answer: such a one is never used again.
    [[nodiscard]] std::unique_ptr<net::connection> reuse();

    /// A new one; null if the upstream cannot be reached, with the reason in `ec`.
    [[nodiscard]] net::task<std::unique_ptr<net::connection>> open(net::error_code& ec);

    /// Keeps one for the next request.
    void keep(std::unique_ptr<net::connection> one);

    /// Keeps none from now on.
    void close() noexcept;

    [[nodiscard]] std::string const& name() const noexcept { return address_.name; }

private:
    static constexpr std::size_t most = 1024;

    asio::io_context& context_;
    net::watchdog& dog_;
    upstream_address const& address_;
    net::clock::duration timeout_;
    std::vector<std::unique_ptr<net::connection>> kept_;
    bool closed_ = false;
};

}  // namespace proxy
