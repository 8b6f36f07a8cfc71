// weir-proxy: a reverse proxy that limits. `weir-proxy --help` says how to use it; gate.hpp is where
// the library does the limiting, session.hpp what happens to one connection.

#include "demo.hpp"
#include "net/resolve.hpp"
#include "options.hpp"
#include "server.hpp"
#include "tool/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace proxy;

std::vector<net::tcp::endpoint> resolve(std::string_view option, std::string const& text) {
    auto const address = *tool::address_of(text);
    net::error_code ec;
    auto found = net::resolve(address.host, address.port, ec);
    if (ec)
        throw std::runtime_error(
            fmt::format("{} is `{}`, but that host is not known: {}", option, text, ec.message()));
    return found;
}

std::string limits(options const& o) {
    std::vector<std::string> each;
    auto const add = [&](std::string_view of, auto const& seats, auto const& rate) {
        if (seats)
            each.push_back(fmt::format("at most {} at a time{}{}", *seats, of,
                                       of.empty() && o.adaptive_seats ? ", adaptive" : ""));
        if (rate)
            each.push_back(fmt::format("a rate of {}{}", to_string(*rate), of));
    };
    add("", o.seats, o.rate);
    if (!o.engine.empty())
        each.back() += fmt::format(" for all proxies named `{}`", o.name);
    add(" for each client", o.per_client_seats, o.per_client_rate);
    if (each.empty())
        return "no limit; --seats and --rate set one";
    return fmt::format("{}; up to {} wait for up to {} ms", fmt::join(each, ", "), o.queue,
                       std::chrono::duration<double, std::milli>(o.patience).count());
}

int run(options const& o) {
    // A file that cannot be written is an error, and not the end.
    for (int const s : {SIGPIPE, SIGXFSZ})
        std::signal(s, SIG_IGN);
    std::optional<demo_kitchen> kitchen;
    endpoints where{.listen = resolve("--listen", o.listen).front(), .upstream = {}};
    if (o.demo) {
        kitchen.emplace();
        where.upstream = {kitchen->listens_at()};
    } else {
        where.upstream = resolve("--upstream", o.upstream);
        if (std::ranges::any_of(where.upstream, [&](auto const& to) {
                return net::leads_back(to, where.listen);
            }))
            throw std::runtime_error(
                fmt::format("--upstream is `{}`, but that is where the proxy itself listens ({})",
                            o.upstream, o.listen));
    }
    server proxy(o, where, o.demo ? "demo" : o.upstream);
    auto const at = proxy.listens_at();
    fmt::print("weir-proxy: http://{}:{} -> {}: {}\n", o.listen.substr(0, o.listen.rfind(':')),
               at.port(), o.demo ? "a demo kitchen that takes 300 ms a dish" : o.upstream,
               limits(o));
    std::fflush(stdout);
    proxy.run();
    tool::complain(proxy.report());
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        auto const o = parse_options(argc, argv);
        if (!o.help.empty()) {
            std::fputs(o.help.c_str(), stdout);
            return 0;
        }
        return run(o);
    } catch (usage_error const& e) {
        fmt::print(stderr, "weir-proxy: {}\n", e.what());
        return 2;
    } catch (std::exception const& e) {
        fmt::print(stderr, "weir-proxy: {}\n", e.what());
        return 1;
    }
}
