#include "prepare.hpp"

#include "tool/trouble.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>

#include <fmt/format.h>

#include <exception>
#include <memory>
#include <utility>

namespace proxy {

void probe_upstreams(asio::io_context& context, plan const& p) {
    for (auto const& u : p.upstreams) {
        for (auto const& s : u->servers()) {
            auto const probe = std::make_shared<net::stream_socket>(context);
            auto const all = s->endpoints().all();
            asio::async_connect(*probe, *all, [probe, s, all](net::error_code ec, auto const&) {
                if (ec && ec != asio::error::operation_aborted)
                    tool::say(tool::level::warning,
                              fmt::format("weir-proxy: warning: {} is not reachable ({}); requests "
                                          "get 502 until it is\n",
                                          s->name(), ec.message()));
            });
        }
    }
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
