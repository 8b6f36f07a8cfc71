#include "prepare.hpp"

#include "net/connection.hpp"
#include "net/proxy_protocol.hpp"
#include "reach.hpp"
#include "tool/trouble.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include <fmt/format.h>

#include <exception>
#include <memory>
#include <string>
#include <utility>

namespace proxy {

namespace {

// Connects to a server, and shakes hands with it if it uses TLS.
net::task<> probe(asio::io_context& context, net::watchdog& dog, std::shared_ptr<upstream> of,
                  std::shared_ptr<upstream_server> server, net::clock::duration limit) {
    auto const version = of->configuration().proxy_protocol;
    auto const header = version != 0 ? net::make_own_introduction(version) : std::string();
    connection_use const use{.inner = tls::inner_protocol::none, .introduction = header};
    auto const how = server->opening_for(use);
    net::error_code ec;
    auto const connection = co_await server->endpoints().connect(context, dog, limit, how, ec);
    if (connection)
        co_return;
    of->report(*server, ec);
    if (!tls::is_of_tls(ec))
        tool::say(
            tool::level::warning,
            fmt::format("weir-proxy: warning: {} is not reachable ({}); requests get {} until "
                        "it is\n",
                        server->name(), ec.message(), fault_of(failure_of_opening(ec)).status));
}

}  // namespace

void probe_upstreams(asio::io_context& context, net::watchdog& dog, plan const& p) {
    auto const limit = p.configuration.timeouts.upstream;
    for (auto const& u : p.upstreams)
        for (auto const& s : u->servers())
            asio::co_spawn(context, probe(context, dog, u, s, limit), asio::detached);
}

void prepare_stores(asio::io_context& context, plan const& p, std::function<void()> ready) {
    asio::any_io_executor const ex = context.get_executor();
    // The last owner that is destroyed calls `ready`.
    std::shared_ptr<void> const all(nullptr, [ready = std::move(ready)](void*) { ready(); });
    for (auto const& l : p.configuration.limits) {
        if (l.store.empty())
            continue;
        auto const& store = p.stores.at(l.store);
        asio::co_spawn(
            ex, store.prepare(l.shared_as.empty() ? l.name : l.shared_as),
            [all](std::exception_ptr const& failure) {
                try {
                    if (failure)
                        std::rethrow_exception(failure);
                } catch (std::exception const& e) {
                    tool::say(tool::level::warning,
                              fmt::format("weir-proxy: warning: the store is unavailable: {}\n",
                                          tool::reason_of(e)));
                }
            });
    }
}

}  // namespace proxy
