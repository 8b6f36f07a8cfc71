#include "server.hpp"

#include "encryption.hpp"
#include "prepare.hpp"
#include "signals.hpp"
#include "tool/trouble.hpp"

#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>

#include <fmt/format.h>

#include <csignal>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace proxy {

namespace {

// Reports settings that may be a mistake.
void warn_of(plan const& p) {
    for (auto const& line : p.configuration.warnings)
        tool::say(tool::level::warning, fmt::format("weir-proxy: {}\n", line));
    // Also for an operator who wants to see only errors.
    for (auto const& line : warnings_of_encryptions(p.configuration))
        tool::say(tool::level::error, fmt::format("weir-proxy: {}\n", line));
    for (auto const& line : p.certificates.warnings(std::chrono::system_clock::now()))
        tool::say(tool::level::warning, fmt::format("weir-proxy: {}\n", line));
}

}  // namespace

server::server(config::configuration const& c, reloader::reader again)
    : shares_(share_out_files(c)),
      listeners_(context_, shares_.clients),
      state_(context_, c.state),
      reloader_(context_, std::move(again), plan_, [this](plan_maker& maker) { apply(maker); }),
      signals_(context_),
      bound_(context_) {
    tool::set_level(c.log_level);
    plan_maker maker(context_.get_executor(), c, shares_, nullptr);
    auto opening = listeners_.open(maker);
    listeners_.check_for_loops(maker);
    plan_ = maker.make();
    opening.keep();
    warn_of(*plan_);
    note_limits();
    state_.restore(*plan_);
    open_log(c.access_log);
    open_agent();
    auto* const log = log_ ? &*log_ : nullptr;
    // From here on these signals lose their default action, which ends the program.
    for (int const s : {SIGINT, SIGTERM, SIGHUP, SIGUSR1})
        signals_.add(s);
    pass_signals();
    threads_.add(c.threads, plan_, log);
    view_.emplace(context_, dog_,
                  operator_view::sources{.plan = plan_,
                                         .now = phase_,
                                         .threads = threads_,
                                         .log = log,
                                         .agent = agent_ ? &*agent_ : nullptr,
                                         .is_changing = [this] { return reloader_.is_reading(); }});
    view_->open(c.admin, shares_.admin);
}

// Closes the listeners, and rejects waiting requests, while the threads that run their handlers still exist.
server::~server() {
    reloader_.join();
    listeners_.close();
    for (auto const& one : limits_)
        if (auto const l = one.lock())
            l->close();
}

void server::open_log(std::string const& path) {
    if (path.empty())
        return;
    try {
        log_.emplace(path);
    } catch (std::system_error const& e) {
        throw std::runtime_error(
            fmt::format("cannot write the access log `{}`: {}", path, e.code().message()));
    }
}

void server::open_agent() {
    auto const& wanted = plan_->configuration.agent;
    if (!wanted)
        return;
    auto options = wanted->options;
    options.max_connections = shares_.agent;
    try {
        agent_.emplace(context_, plan_->stores.at(wanted->store.name).keeper, options);
    } catch (boost::system::system_error const& e) {
        throw std::runtime_error(
            fmt::format("agent: cannot listen at `{}`: {}", options.path, why_not(e.code())));
    } catch (std::filesystem::filesystem_error const& e) {
        throw std::runtime_error(
            fmt::format("agent: cannot listen at `{}`: {}", options.path, e.code().message()));
    }
}

void server::note_limits() {
    std::erase_if(limits_, [](auto const& l) { return l.expired(); });
    limits_.insert(limits_.end(), plan_->limits.begin(), plan_->limits.end());
    for (auto const& b : plan_->bandwidths)
        for (auto const& one : {b.up, b.down})
            if (one)
                limits_.push_back(one->limiter());
}

void server::run() {
    threads_.run([this] { context_.stop(); });
    listen_to_signals();
    probe_upstreams(context_, dog_, *plan_);
    names_.emplace(context_, *plan_);
    checks_.emplace(context_, dog_, *plan_);
    // Clients wait at most 1 s for the stores.
    bound_.expires_after(std::chrono::seconds(1));
    bound_.async_wait([this](net::error_code ec) {
        if (!ec)
            let_clients_in();
    });
    view_->start();
    state_.start(plan_);
    prepare_stores(context_, *plan_, [this] { let_clients_in(); });
    context_.run();
    threads_.join();
    state_.finish(plan_);
    if (log_)
        log_->end();  // before the report, which counts the dropped lines
}

void server::let_clients_in() {
    if (phase_ != phase::starting)
        return;
    phase_ = phase::serving;
    listeners_.start(
        {.accepts = threads_.accepting(),
         .next_context = [this]() -> asio::io_context& { return threads_.next().context(); },
         .accepted = [this](net::arrival a) { threads_.serve(std::move(a)); },
         .trouble =
             [this](std::string const& what) {
                 asio::post(context_, [this, what] { view_->warn("weir-proxy: " + what); });
             }});
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
        else if (phase_ != phase::draining)
            drain();
        else
            abort();
    });
}

void server::reload() {
    if (log_)
        log_->reopen();
    reloader_.start();
}

void server::apply(plan_maker& maker) {
    auto const& c = maker.configuration();
    auto opening = listeners_.open(maker);
    listeners_.check_for_loops(maker);
    plan_ = maker.make();
    listeners_.follow(c);
    threads_.on_each([p = plan_](worker& w) { w.use(p); });
    // Last: no thread gets a connection of a listener that its plan does not name.
    opening.keep();
    tool::set_level(c.log_level);
    warn_of(*plan_);
    note_limits();
    names_.emplace(context_, *plan_);
    checks_.emplace(context_, dog_, *plan_);
    prepare_stores(context_, *plan_, [] {});
}

void server::drain() {
    phase_ = phase::draining;
    reloader_.stop();
    checks_.reset();
    names_.reset();
    listeners_.close();
    threads_.drain();
    bound_.expires_after(plan_->configuration.drain);
    bound_.async_wait([this](net::error_code ec) {
        if (!ec)
            abort();
    });
}

// Closes the connections that are still being served. After another second, stops the threads that did not end by that.
void server::abort() {
    threads_.abort();
    bound_.expires_after(std::chrono::seconds(1));
    bound_.async_wait([this](net::error_code ec) {
        if (!ec)
            threads_.stop();
    });
}

}  // namespace proxy
