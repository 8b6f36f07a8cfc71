#include "server.hpp"

#include "config/read.hpp"
#include "net/resolve.hpp"
#include "observe.hpp"
#include "session.hpp"
#include "tool/trouble.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/post.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iterator>
#include <numeric>
#include <utility>
#include <variant>

namespace proxy {
namespace {

std::string why_not(net::error_code ec) {
    return ec == asio::error::address_in_use ? "another program already does" : ec.message();
}

net::endpoint find(config::listen_address const& at) {
    auto const complain = [&](std::string_view why) {
        throw std::runtime_error(fmt::format("cannot listen at {}: {}", to_string(at), why));
    };
    if (auto const* const local = std::get_if<config::unix_address>(&at)) {
        auto const found = net::unix_endpoint(local->path);
        if (!found)
            complain("the path is too long");
        return *found;
    }
    auto const& tcp = std::get<config::tcp_address>(at);
    net::error_code ec;
    auto const found = net::resolve(tcp.host, std::to_string(tcp.port), ec);
    if (ec)
        complain(fmt::format("that host is not known: {}", ec.message()));
    return found.front();
}

// A request that came back would go round until no connection is left.
void check_for_loops(plan_maker const& maker, net::listener const& listener) {
    for (auto const& to : maker.endpoints())
        for (auto const& door : listener.doors())
            if (net::leads_back(to, door.listens_at()))
                throw std::runtime_error(fmt::format("an upstream has the server {}, but that is "
                                                     "where the proxy itself listens ({})",
                                                     net::to_string(to), door.name()));
}

std::string text_of(upstream_trouble const& t) {
    auto const server = t.server ? fmt::format("the server {}: ", t.server->name()) : "";
    return fmt::format("weir-proxy: upstream {}: {}{}", t.of->configuration().name, server, t.why);
}

void report_one(std::string& out, limit const& l) {
    auto const s = l.stats();
    // Who waits has been refused at once before.
    auto const& c = l.configuration();
    bool const waits =
        !c.shadow && c.queue.patience.length_or(weir::forever) > weir::duration::zero();
    auto const too_late = waits ? s.deadline_unreachable : s.limited;

    fmt::format_to(std::back_inserter(out),
                   "weir-proxy: {}: {} granted ({} at once), {}: {} queue full, {} timed out, "
                   "{} too late, {} hung up; now {} in use, {} waiting",
                   c.name, s.granted, s.granted_at_once, c.shadow ? "would be refused" : "refused",
                   s.queue_full, s.timed_out, too_late, s.cancelled, s.in_use, s.waiting);
    if (l.is_adaptive())
        fmt::format_to(std::back_inserter(out), ", {} seats", s.capacity);
    if (auto const keys = l.keys())
        fmt::format_to(std::back_inserter(out), ", {} clients", *keys);
    out += l.more();
    out += '\n';
}

}  // namespace

server::server(config::configuration const& c, reader again)
    : shares_(share_out_files(c)),
      again_(std::move(again)),
      listener_(context_, shares_.clients),
      signals_(context_),
      bound_(context_),
      second_(context_) {
    tool::set_level(c.log_level);
    plan_maker maker(context_.get_executor(), c, shares_, nullptr);
    open_doors(c);
    check_for_loops(maker, listener_);
    open_admin(c.admin);
    plan_ = maker.make();
    limits_.assign(plan_->limits.begin(), plan_->limits.end());
    if (!c.access_log.empty()) {
        try {
            log_.emplace(c.access_log);
        } catch (std::system_error const& e) {
            throw std::runtime_error(
                fmt::format("the access log is `{}`, but that cannot be written: {}", c.access_log,
                            e.code().message()));
        }
    }
    // From now on they do not simply end the program.
    for (int const s : {SIGINT, SIGTERM, SIGHUP, SIGUSR1})
        signals_.add(s);
    for (std::int64_t i = 0; i < c.threads; ++i)
        threads_.push_back(std::make_unique<thread>(plan_, pools_, log_ ? &*log_ : nullptr));
}

// Whoever waits is told, as long as there are threads to be told on.
server::~server() {
    if (loads_.joinable())
        loads_.join();
    for (auto const& one : limits_)
        if (auto const l = one.lock())
            l->close();
}

// Those that are not open yet: all of them, or none.
std::vector<net::listener::door*> server::open_doors(config::configuration const& c) {
    std::vector<net::listener::door*> opened;
    auto const is_open = [this](std::string const& name) {
        return std::ranges::any_of(listener_.doors(), [&](auto const& door) {
            return door.name() == name;
        });
    };
    try {
        for (auto const& l : c.listeners)
            if (!is_open(to_string(l.address)))
                open_door(l, opened);
    } catch (...) {
        for (auto* const door : opened)
            listener_.close(*door);
        throw;
    }
    return opened;
}

void server::open_door(config::listener const& l, std::vector<net::listener::door*>& opened) {
    auto const name = to_string(l.address);
    auto const* const named = std::get_if<config::inherited_sockets>(&l.address);
    try {
        if (!named) {
            opened.push_back(&listener_.open(find(l.address), name));
            return;
        }
        auto const before = opened.size();
        std::erase_if(inherited_, [&](auto const& one) {
            bool const mine = one.first == named->name;
            if (mine)
                opened.push_back(&listener_.adopt(one.second, name));
            return mine;
        });
        if (opened.size() == before)
            throw std::runtime_error(fmt::format(
                "cannot listen at {}: the service manager has opened no such socket", name));
    } catch (boost::system::system_error const& e) {
        throw std::runtime_error(fmt::format("cannot listen at {}: {}", name, why_not(e.code())));
    }
}

// ---- Another configuration

// What has come of reading it.
struct server::loaded {
    std::unique_ptr<plan_maker> maker;
    std::vector<std::string> problems;
};

void server::reload() {
    if (log_)
        log_->reopen();
    if (!again_ || draining_)
        return;
    if (loads_.joinable()) {
        loads_again_ = true;
        return;
    }
    loads_ = std::thread([this, before = plan_] {
        auto result = std::make_shared<loaded>();
        try {
            auto c = again_();
            c.threads = before->configuration.threads;
            result->maker = std::make_unique<plan_maker>(
                context_.get_executor(), c, share_out_files(c), before);
        } catch (config::bad_configuration const& e) {
            result->problems = e.problems();
        } catch (std::exception const& e) {
            result->problems = {e.what()};
        }
        asio::post(context_, [this, result] { finish_reload(*result); });
    });
}

void server::finish_reload(loaded const& l) {
    loads_.join();
    auto problems = l.problems;
    if (l.maker && !draining_) {
        try {
            apply(*l.maker);
            tool::say(tool::level::info, "weir-proxy: the configuration has been read anew\n");
        } catch (std::exception const& e) {
            problems = {e.what()};
        }
    }
    for (auto const& line : problems)
        tool::say(tool::level::error, fmt::format("weir-proxy: {}\n", line));
    if (!problems.empty())
        tool::say(tool::level::error, "weir-proxy: the configuration stays as it was\n");
    if (std::exchange(loads_again_, false))
        reload();
}

void server::apply(plan_maker& maker) {
    auto const& c = maker.configuration();
    auto const opened = open_doors(c);
    try {
        check_for_loops(maker, listener_);
        plan_ = maker.make();
    } catch (...) {
        for (auto* const door : opened)
            listener_.close(*door);
        throw;
    }
    on_each_thread([p = plan_](thread& t) { t.work.use(p); });
    tool::set_level(c.log_level);
    std::vector<net::listener::door*> unnamed;
    for (auto& door : listener_.doors())
        if (std::ranges::none_of(c.listeners, [&](auto const& l) {
                return to_string(l.address) == door.name();
            }))
            unnamed.push_back(&door);
    for (auto* const door : unnamed)
        listener_.close(*door);
    std::erase_if(limits_, [](auto const& l) { return l.expired(); });
    limits_.insert(limits_.end(), plan_->limits.begin(), plan_->limits.end());
    checks_.emplace(context_, dog_, plan_);
    prepare_engines([] {});
}

// ---- What an operator sees

void server::open_admin(config::admin_options const& a) {
    if (!a.address)
        return;
    auto const at =
        std::visit([](auto const& one) { return config::listen_address(one); }, *a.address);
    auto const complain = [](std::string const& what) {
        tool::tell(tool::level::warning, fmt::format("weir-proxy: for the operator: {}", what));
    };
    admin_.emplace(context_, dog_, shares_.admin,
                   admin::site::handlers{
                       .look = [this] { return look(); },
                       .guard = [this] { return guard_of(plan_->configuration.admin); },
                       .change = [this](auto name, auto rule,
                                        auto const& by) { return change_limit(name, rule, by); },
                       .trouble = complain});
    try {
        admin_->open(find(at), to_string(at));
    } catch (boost::system::system_error const& e) {
        // A second proxy of a machine starts, too.
        if (a.is_named || e.code() != asio::error::address_in_use)
            throw std::runtime_error(fmt::format(
                "cannot listen at {} for the operator: {}", to_string(at), why_not(e.code())));
        auto const host = std::get<config::tcp_address>(at).host;
        admin_->open(find(config::tcp_address{host, 0}), host + ":0");
    }
}

admin::state server::look() const {
    auto s = state_of(*plan_);
    s.started = started_;
    s.ready = open_ && !draining_;
    s.draining = draining_;
    s.connections = sum(&counters::connections);
    s.open_connections = sum(&counters::open);
    s.open_tunnels = sum(&counters::tunnels);
    s.requests = {
        {"answered", sum(&counters::answered)},       {"answered_by_route", sum(&counters::routed)},
        {"turned_away", sum(&counters::turned_away)}, {"hung_up", sum(&counters::hung_up)},
        {"failed", sum(&counters::failed)},           {"malformed", sum(&counters::malformed)}};
    s.log_lines_dropped = log_ ? log_->dropped() : 0;
    return s;
}

admin::answer server::change_limit(std::string_view name, std::string_view rule,
                                   std::string const& client) {
    if (loads_.joinable())  // it looks at the limits
        return {503, "the configuration is being read anew: try again"};
    auto const found = std::ranges::find(plan_->limits, name, [](auto const& l) {
        return std::string_view(l->configuration().name);
    });
    if (found == plan_->limits.end())
        return {404, fmt::format("there is no limit `{}` in the configuration", name)};
    return set_rule(**found, rule, client);
}

// A step of all that is done once a second.
void server::go_on() {
    second_.expires_after(std::chrono::seconds(1));
    second_.async_wait([this](net::error_code ec) {
        if (ec)
            return;
        collect();
        tool::tell_how_often();
        if (admin_)
            admin_->go_on();
        go_on();
    });
}

// What threads have counted. Where no request has failed nothing is asked.
void server::collect() {
    for (auto& t : threads_) {
        auto const& counts = t->work.counts();
        auto const n = counts.turned_away.value() + counts.failed.value();
        if (n == std::exchange(t->collected, n))
            continue;
        asio::post(t->work.context(), [this, &w = t->work] {
            auto refused = w.refused().all();
            auto troubles = w.troubles().all();
            w.refused().clear();
            w.troubles().clear();
            asio::post(
                context_, [this, refused = std::move(refused), troubles = std::move(troubles)] {
                    for (auto const& one : refused)
                        if (admin_)
                            admin_->count({one.key.limit, name_of_client(one.key.client)},
                                          one.count, one.error);
                    for (auto const& one : troubles)
                        tool::tell(tool::level::warning, text_of(one.key), one.count - one.error);
                });
        });
    }
}

// ---- Its life

void server::run() {
    running_ = threads_.size();
    for (auto& t : threads_)
        t->runs = std::thread([this, &t = *t] {
            t.work.context().run();
            asio::post(context_, [this] { thread_ended(); });
        });
    listen_to_signals();
    probe_upstreams();
    checks_.emplace(context_, dog_, plan_);
    // Clients are not kept waiting for an engine for long.
    bound_.expires_after(std::chrono::seconds(1));
    bound_.async_wait([this](net::error_code ec) {
        if (!ec)
            let_clients_in();
    });
    if (admin_)
        admin_->start();
    go_on();
    prepare_engines([this] { let_clients_in(); });
    context_.run();
    for (auto& t : threads_)
        t->runs.join();
}

void server::let_clients_in() {
    if (std::exchange(open_, true) || draining_)
        return;
    listener_.start(
        {.next_context = [this]() -> asio::io_context& { return threads_[next_]->work.context(); },
         .accepted =
             [this](auto socket, auto const& from, auto admission, auto const& by) {
                 start_session(std::move(socket), from, std::move(admission), by);
             },
         .trouble =
             [](std::string const& what) {
                 tool::tell(tool::level::warning, fmt::format("weir-proxy: {}", what));
             }});
}

void server::start_session(net::stream_socket socket, net::endpoint const& from,
                           net::listener::admission a, net::listener::door const& by) {
    auto& w = threads_[next_]->work;
    next_ = (next_ + 1) % threads_.size();
    auto const tcp = net::tcp_endpoint(from);
    auto const peer = tcp ? tcp->address() : asio::ip::address();
    auto const& listeners = plan_->configuration.listeners;
    bool const balanced = std::ranges::any_of(listeners, [&](auto const& l) {
        return l.proxy_protocol && to_string(l.address) == by.name();
    });
    auto const how = balanced ? introduced::by_a_balancer : introduced::by_itself;
    // A socket is of the thread that will serve it; so is the session.
    asio::post(w.context(), [&w, peer, how, s = std::move(socket), a = std::move(a)]() mutable {
        session::start(std::make_unique<session>(w, std::move(s), peer, std::move(a), how));
    });
}

// So that a wrong address is noticed before the first request.
void server::probe_upstreams() {
    for (auto const& u : plan_->upstreams) {
        for (auto const& s : u->servers()) {
            auto& probe = probes_.emplace_back(context_);
            asio::async_connect(
                probe, s->endpoints().all(), [&probe, s](net::error_code ec, auto const&) {
                    if (ec && ec != asio::error::operation_aborted)
                        tool::say(
                            tool::level::warning,
                            fmt::format("weir-proxy: warning: nobody answers at {} yet ({}); until "
                                        "then requests are answered 502\n",
                                        s->name(), ec.message()));
                    net::error_code ignored;
                    probe.close(ignored);
                });
        }
    }
}

// Calls `ready` when all have answered, or cannot.
void server::prepare_engines(std::function<void()> ready) {
    asio::any_io_executor const ex = context_.get_executor();
    // It is called when the last of its owners has gone.
    std::shared_ptr<void> const all(nullptr, [ready = std::move(ready)](void*) { ready(); });
    for (auto const& l : plan_->configuration.limits) {
        if (l.engine.empty())
            continue;
        auto const& engine = plan_->engines.at(l.engine);
        asio::co_spawn(
            ex, engine.prepare(l.shared_as.empty() ? l.name : l.shared_as),
            [all](std::exception_ptr const& failure) {
                try {
                    if (failure)
                        std::rethrow_exception(failure);
                } catch (std::exception const& e) {
                    tool::say(
                        tool::level::warning,
                        fmt::format("weir-proxy: warning: the engine cannot be asked yet: {}\n",
                                    e.what()));
                }
            });
    }
}

void server::listen_to_signals() {
    signals_.async_wait([this](net::error_code ec, int which) {
        if (ec)
            return;
        listen_to_signals();
        if (which == SIGUSR1)
            tool::complain(report());
        else if (which == SIGHUP)
            reload();
        else if (!draining_)
            drain();
        else
            abort();
    });
}

template <class F>
void server::on_each_thread(F f) {
    for (auto& t : threads_)
        asio::post(t->work.context(), [f, &t = *t] { f(t); });
}

void server::drain() {
    draining_ = true;
    checks_.reset();
    listener_.close();
    on_each_thread([](thread& t) {
        t.work.drain();
        t.keeps_running.reset();
    });
    bound_.expires_after(plan_->configuration.drain);
    bound_.async_wait([this](net::error_code ec) {
        if (!ec)
            abort();
    });
}

// Cuts off what is still being served, and a moment later whatever does not end by that.
void server::abort() {
    on_each_thread([](thread& t) { t.work.abort(); });
    bound_.expires_after(std::chrono::seconds(1));
    bound_.async_wait([this](net::error_code ec) {
        if (!ec)
            for (auto& t : threads_)
                t->work.context().stop();
    });
}

void server::thread_ended() {
    if (--running_ == 0)
        context_.stop();
}

std::uint64_t server::sum(counter counters::* which) const {
    return std::accumulate(
        threads_.begin(), threads_.end(), std::uint64_t(0),
        [which](std::uint64_t n, auto const& t) { return n + (t->work.counts().*which).value(); });
}

std::string server::report() const {
    auto out = fmt::format(
        "weir-proxy: {} connections ({} open), {} requests: {} answered, {} answered by a route, "
        "{} turned away, {} hung up, {} failed; {} malformed; {} log lines dropped\n",
        sum(&counters::connections), sum(&counters::open), sum(&counters::requests),
        sum(&counters::answered), sum(&counters::routed), sum(&counters::turned_away),
        sum(&counters::hung_up), sum(&counters::failed), sum(&counters::malformed),
        log_ ? log_->dropped() : 0);
    for (auto const& l : plan_->limits)
        report_one(out, *l);
    for (auto const& u : plan_->upstreams)
        if (auto const seats = u->seats())
            report_one(out, *seats);
    return out;
}

}  // namespace proxy
