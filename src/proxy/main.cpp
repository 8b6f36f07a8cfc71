// weir-proxy: a reverse proxy with limits; see `weir-proxy --help`. gate.hpp applies the limiters of the library,
// session.hpp serves one connection.

#include "certificates.hpp"
#include "config/read.hpp"
#include "config/tcp.hpp"
#include "config/write.hpp"
#include "demo.hpp"
#include "encryption.hpp"
#include "net/resolve.hpp"
#include "options.hpp"
#include "server.hpp"
#include "signals.hpp"
#include "store.hpp"
#include "tool/text.hpp"
#include "tool/trouble.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

namespace {

using namespace proxy;

std::string text_of(config::limit const& l) {
    auto const* const seats = std::get_if<weir::seats_options>(&l.rule.options);
    std::string out;
    if (auto const& b = l.bandwidth)
        out = fmt::format("a bandwidth of {}{}{}", b->up ? to_string(*b->up) + " up" : "",
                          b->up && b->down ? " and " : "",
                          b->down ? to_string(*b->down) + " down" : "");
    else if (l.is_unlimited)
        out = config::unlimited;
    else if (seats)
        out = fmt::format("at most {} concurrent request{}", seats->seats,
                          seats->seats == 1 ? "" : "s");
    else if (auto const* const adaptive = std::get_if<weir::adaptive_options>(&l.rule.options))
        out = fmt::format("at most {} concurrent requests, adaptive",
                          std::visit([](auto const& o) { return o.max; }, *adaptive));
    else if (config::has_seats(l.rule) || config::is_penalty(l.rule))
        out = to_string(l.rule);
    else
        out = fmt::format("a rate of {}", to_string(l.rule));
    std::vector<std::string> key;
    for (auto const& part : l.key)
        key.push_back(to_string(part));
    if (!key.empty())
        out += fmt::format(" per {}", fmt::join(key, " and "));
    if (!l.store.empty())
        out += fmt::format(" shared as `{}`", l.shared_as.empty() ? l.name : l.shared_as);
    if (l.dry_run)
        out += " (dry run)";
    return out;
}

// The limits that requests and connections meet: the limits of routes and listeners, and the seats of their upstreams.
std::vector<config::limit> limits_in_use(config::configuration const& c) {
    std::set<std::string_view> limits;
    std::set<std::string_view> upstreams;
    for (auto const& r : c.routes) {
        limits.insert(r.limits.begin(), r.limits.end());
        upstreams.insert(r.upstream);
    }
    for (auto const& l : c.listeners)
        if (l.tcp) {
            auto const add = [&](auto const& to) {
                limits.insert(to.limits.begin(), to.limits.end());
                upstreams.insert(to.upstream);
            };
            add(*l.tcp);
            std::ranges::for_each(l.tcp->routes, add);
        }
    std::vector<config::limit> found;
    for (auto const& l : c.limits)
        if (limits.contains(l.name))
            found.push_back(l);
    for (auto const& u : c.upstreams)
        if (auto seats = config::seats_of(u); seats && upstreams.contains(u.name))
            found.push_back(std::move(*seats));
    return found;
}

// The limits of bytes that routes and listeners name.
std::string bandwidths_in_use(config::configuration const& c) {
    std::set<std::string_view> names;
    for (auto const& r : c.routes)
        names.insert(r.bandwidths.begin(), r.bandwidths.end());
    for (auto const& l : c.listeners) {
        names.insert(l.bandwidths.begin(), l.bandwidths.end());
        if (l.tcp) {
            auto const add = [&](auto const& to) {
                names.insert(to.bandwidths.begin(), to.bandwidths.end());
            };
            add(*l.tcp);
            std::ranges::for_each(l.tcp->routes, add);
        }
    }
    std::string out;
    for (auto const& l : c.bandwidths)
        if (names.contains(l.name))
            out += (out.empty() ? "" : ", ") + text_of(l);
    return out;
}

// The routes to an upstream whose requests meet no limit, unless all of them are such routes.
std::string exception_of(config::configuration const& c) {
    std::vector<std::string> names;
    std::size_t limited = 0;
    for (auto const& r : c.routes) {
        if (r.respond)
            continue;
        auto const to = std::ranges::find(c.upstreams, r.upstream, &config::upstream::name);
        if (r.limits.empty() && !config::seats_of(*to))
            names.push_back(fmt::format("`{}{}`", r.host, r.path));
        else
            ++limited;
    }
    if (names.empty() || limited == 0)
        return {};
    if (names.size() > 3)
        return fmt::format("; {} routes have no limit", names.size());
    return fmt::format("; no limit for {}", fmt::join(names, ", "));
}

std::string text_of(std::vector<config::limit> const& limits) {
    std::vector<std::string> each;
    for (auto const& l : limits)
        each.push_back(text_of(l));
    auto const& q = limits.front().queue;
    auto const text = to_string(q);
    bool const one_queue =
        std::ranges::all_of(limits, [&](auto const& l) { return to_string(l.queue) == text; });
    if (!one_queue)
        return fmt::format("{}", fmt::join(each, ", "));
    auto const patience = q.patience.length_or(weir::forever);
    if (q.max_waiting == 0 || patience == weir::duration::zero())
        return fmt::format("{}; no request waits", fmt::join(each, ", "));
    return fmt::format("{}; up to {} wait {}", fmt::join(each, ", "), q.max_waiting,
                       patience == weir::forever
                           ? "without a time limit"
                           : fmt::format("up to {}", tool::to_text(patience)));
}

char const* scheme_of(net::listener::acceptor const& acceptor, server const& proxy,
                      config::configuration const& c) {
    bool const tcp = std::ranges::any_of(c.listeners, [&](config::listener const& l) {
        return l.tcp && to_string(l.address) == acceptor.name();
    });
    bool const tls = proxy.encrypts(acceptor);
    return tcp ? (tls ? "tls" : "tcp") : tls ? "https" : "http";
}

std::string url_of(net::listener::acceptor const& acceptor, char const* scheme) {
    auto const tcp = net::tcp_endpoint(acceptor.listens_at());
    auto const& name = acceptor.name();
    return tcp && name.find(':') != name.npos && !name.starts_with("systemd:")
               ? fmt::format("{}://{}:{}", scheme, name.substr(0, name.rfind(':')), tcp->port())
               : name;
}

// The first line of output: listeners, servers, limits, the agent and the status page.
std::string greeting(server const& proxy, config::configuration const& c, bool demo) {
    std::vector<std::string> from;
    for (auto const& acceptor : proxy.acceptors())
        from.push_back(url_of(*acceptor, scheme_of(*acceptor, proxy, c)));
    std::vector<std::string> to;
    for (auto const& u : c.upstreams)
        for (auto const& s : u.servers)
            to.push_back(to_string(s));
    auto const limits = limits_in_use(c);
    auto const bandwidths = bandwidths_in_use(c);
    auto in_force = !limits.empty() ? text_of(limits) + exception_of(c) : std::string();
    if (!bandwidths.empty())
        in_force += (in_force.empty() ? "" : "; ") + bandwidths;
    if (in_force.empty())
        in_force =
            c.limits.empty() && c.bandwidths.empty() ? "no limit; set one with --seats or --rate"
            : has_tcp(c)                             ? "no limit; no route or listener names one"
                                                     : "no limit; no route names one";
    std::vector<std::string> parts;
    if (!from.empty())
        parts.push_back(fmt::format("{} -> {}: {}", fmt::join(from, ", "),
                                    demo         ? "demo backend (300 ms per request)"
                                    : to.empty() ? "no upstream"
                                                 : fmt::format("{}", fmt::join(to, ", ")),
                                    in_force));
    if (auto const& a = c.agent)
        parts.push_back(fmt::format("agent {} for store `{}`", a->options.path, a->store.name));
    if (auto const* const admin = proxy.admin_acceptor())
        parts.push_back(fmt::format("status page {}", url_of(*admin, "http")));
    return fmt::format("weir-proxy: {}\n", fmt::join(parts, "; "));
}

// Finds errors that reading the configuration does not find. Returns warnings.
std::vector<std::string> check(config::configuration const& c) {
    net::asio::io_context context;
    for (auto const& e : c.stores)
        static_cast<void>(
            make_store(context.get_executor(), fmt::format("store `{}`: `url`", e.name), e.url));
    for (auto const& u : c.upstreams)
        static_cast<void>(encryptions_of(u));
    auto warnings = c.warnings;
    std::ranges::copy(warnings_of_encryptions(c), std::back_inserter(warnings));
    auto const more = read_certificates(c, nullptr).warnings(std::chrono::system_clock::now());
    warnings.insert(warnings.end(), more.begin(), more.end());
    return warnings;
}

// Checks the configuration, then signals the running proxy to reload it.
void reload(config::configuration const& c) {
    static_cast<void>(check(c));
    if (c.pid_file.empty())
        throw tool::usage_error("--reload needs a `pid_file` in the configuration");
    std::ifstream in(c.pid_file);
    pid_t pid = 0;
    if (!(in >> pid) || pid <= 1 || ::kill(pid, SIGHUP) != 0)
        throw std::runtime_error(fmt::format("no running proxy for pid file `{}`", c.pid_file));
}

// A file with the process id, which exists as long as this object.
class pid_file {
public:
    explicit pid_file(std::string path) : path_(std::move(path)) {
        if (path_.empty())
            return;
        std::ofstream out(path_);
        if (!(out << ::getpid() << '\n').flush())
            throw std::runtime_error(fmt::format("cannot write the pid file `{}`: {}", path_,
                                                 std::generic_category().message(errno)));
    }
    pid_file(pid_file const&) = delete;
    ~pid_file() {
        if (!path_.empty())
            ::unlink(path_.c_str());
    }

private:
    std::string path_;
};

int serve(command const& asked, config::configuration c) {
    // A failed write returns an error and does not end the process.
    for (int const s : {SIGPIPE, SIGXFSZ})
        std::signal(s, SIG_IGN);
    if (c.threads == 0)
        c.threads = std::max(1u, std::thread::hardware_concurrency());
    std::optional<demo_backend> backend;
    if (asked.demo) {
        backend.emplace();
        c.upstreams[0].servers[0].address =
            config::tcp_address{"127.0.0.1", backend->listens_at().port()};
    }
    reloader::reader again;
    if (!asked.file.empty())
        again = [file = asked.file] { return config::read_file(file); };
    std::optional<demo_certificate> certificate;
    if (asked.tls) {
        auto& l = c.listeners.front();
        l.tls.push_back(certificate.emplace().files());
        l.unknown_name = config::unknown_name::first;
    }
    server proxy(c, again);
    certificate.reset();  // the server has read it
    pid_file const pid(c.pid_file);
    fmt::print("{}", greeting(proxy, c, asked.demo));
    std::fflush(stdout);
    proxy.run();
    tool::complain(proxy.report());
    return 0;
}

int run(command const& asked) {
    using action = command::action;
    if (asked.what == action::help) {
        std::fputs(asked.help.c_str(), stdout);
        return 0;
    }
    auto c = asked.file.empty() ? asked.configuration : config::read_file(asked.file);
    if (asked.what == action::print) {
        std::fputs(write(c).c_str(), stdout);
        return 0;
    }
    if (asked.what == action::check) {
        auto const warnings = check(c);
        for (auto const& line : warnings)
            tool::complain(fmt::format("weir-proxy: {}\n", line));
        return asked.strict && !warnings.empty() ? 1 : 0;
    }
    if (asked.what == action::reload) {
        reload(c);
        return 0;
    }
    return serve(asked, std::move(c));
}

}  // namespace

int main(int argc, char** argv) {
    hold_signals();
    try {
        return run(parse_options(argc, argv));
    } catch (config::bad_configuration const& e) {
        for (auto const& line : e.problems())
            fmt::print(stderr, "weir-proxy: {}\n", line);
        return 2;
    } catch (tool::usage_error const& e) {
        fmt::print(stderr, "weir-proxy: {}\n", e.what());
        return 2;
    } catch (std::exception const& e) {
        fmt::print(stderr, "weir-proxy: {}\n", tool::reason_of(e));
        return 1;
    }
}
