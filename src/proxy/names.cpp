#include "names.hpp"

#include "tool/trouble.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/address.hpp>

#include <fmt/format.h>

#include <string>
#include <utility>
#include <variant>

namespace proxy {

struct name_lookups::one {
    one(asio::io_context& c, std::shared_ptr<upstream_server> s, config::tcp_address const& a,
        net::clock::duration d)
        : server(std::move(s)),
          host(a.host),
          port(std::to_string(a.port)),
          every(d),
          pause(c),
          resolver(c) {}

    void note(net::error_code ec, std::vector<net::endpoint> found);

    std::shared_ptr<upstream_server> server;
    std::string host;
    std::string port;
    net::clock::duration every;
    net::timer pause;
    boost::asio::ip::basic_resolver<net::tcp, net::executor> resolver;
    bool failed = false;
    bool over = false;
};

name_lookups::name_lookups(asio::io_context& context, plan const& p) {
    for (auto const& u : p.upstreams) {
        auto const every = u->configuration().resolve;
        for (auto const& s : u->servers()) {
            auto const* const at = std::get_if<config::tcp_address>(&s->address());
            net::error_code is_name;
            if (at)
                boost::asio::ip::make_address(at->host, is_name);
            if (!at || !is_name || every == net::clock::duration::zero())
                continue;
            all_.push_back(std::make_shared<one>(context, s, *at, every));
            asio::co_spawn(context, look_after(all_.back()), asio::detached);
        }
    }
}

name_lookups::~name_lookups() {
    for (auto const& lookup : all_) {
        lookup->over = true;
        lookup->pause.cancel();
        lookup->resolver.cancel();
    }
}

net::task<> name_lookups::look_after(std::shared_ptr<one> lookup) {
    while (!lookup->over) {
        lookup->pause.expires_after(lookup->every);
        co_await lookup->pause.async_wait(net::as_values);
        if (lookup->over)
            co_return;
        auto const [ec, found] =
            co_await lookup->resolver.async_resolve(lookup->host, lookup->port, net::as_values);
        if (lookup->over)
            co_return;
        std::vector<net::endpoint> all;
        for (auto const& each : found)
            all.emplace_back(each.endpoint());
        lookup->note(ec, std::move(all));
    }
}

// The server keeps its addresses while its name cannot be resolved.
void name_lookups::one::note(net::error_code ec, std::vector<net::endpoint> found) {
    bool const before = std::exchange(failed, ec || found.empty());
    if (failed && !before)
        tool::say(tool::level::warning,
                  fmt::format("weir-proxy: cannot resolve `{}`: {}; its addresses stay\n", host,
                              ec ? ec.message() : "it has no address"));
    if (!failed && server->endpoints().replace(std::move(found)))
        tool::say(tool::level::info,
                  fmt::format("weir-proxy: server {} has other addresses\n", server->name()));
}

}  // namespace proxy
