#include "server.hpp"

#include "session.hpp"
#include "tool/text.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <numeric>

namespace proxy {
namespace {

net::tcp::endpoint resolve(asio::io_context& context, std::string const& option,
                           std::string const& text) {
    auto const address = *tool::address_of(text);
    net::error_code ec;
    asio::ip::basic_resolver<net::tcp, net::executor> resolver(context);
    auto const found = resolver.resolve(address.host, address.port, ec);
    if (ec || found.empty())
        throw std::runtime_error(
            fmt::format("{} is `{}`, but that host is not known: {}", option, text, ec.message()));
    return found.begin()->endpoint();
}

}  // namespace

server::server(options const& o, net::tcp::endpoint const& at, std::string name)
    : options_(o),
      upstream_(at, std::move(name), options_),
      gate_(context_.get_executor(), options_),
      acceptor_(context_),
      signals_(context_),
      pause_(context_),
      bound_(context_) {
    if (!options_.access_log.empty()) {
        try {
            log_.emplace(options_.access_log);
        } catch (std::system_error const& e) {
            throw std::runtime_error(
                fmt::format("--access-log is `{}`, but that cannot be written: {}",
                            options_.access_log, e.code().message()));
        }
    }
    // From now on they do not simply end the program.
    for (int const s : {SIGINT, SIGTERM, SIGHUP, SIGUSR1})
        signals_.add(s);
    auto const endpoint = resolve(context_, "--listen", options_.listen);
    net::error_code ec;
    acceptor_.open(endpoint.protocol(), ec);
    if (!ec)
        acceptor_.set_option(net::tcp_acceptor::reuse_address(true), ec);
    if (!ec)
        acceptor_.bind(endpoint, ec);
    if (!ec)
        acceptor_.listen(4096, ec);
    if (ec)
        throw std::runtime_error(fmt::format(
            "cannot listen at {}: {}", options_.listen,
            ec == asio::error::address_in_use ? "another program already does" : ec.message()));
    for (std::int64_t i = 0; i < options_.threads; ++i)
        threads_.push_back(
            std::make_unique<thread>(options_, upstream_, gate_, log_ ? &*log_ : nullptr));
}

server::~server() = default;

net::tcp::endpoint server::listens_at() const {
    return acceptor_.local_endpoint();
}

void server::run() {
    running_ = threads_.size();
    for (auto& t : threads_)
        t->runs = std::thread([this, &t = *t] {
            t.work.context().run();
            asio::post(context_, [this] { thread_ended(); });
        });
    listen_to_signals();
    accept();
    context_.run();
    for (auto& t : threads_)
        t->runs.join();
}

void server::accept() {
    auto& w = threads_[next_]->work;
    acceptor_.async_accept(w.context(), [this, &w](net::error_code ec, net::tcp_socket socket) {
        if (!acceptor_.is_open())
            return;
        if (!ec) {
            next_ = (next_ + 1) % threads_.size();
            net::error_code gone;
            auto const from = socket.remote_endpoint(gone);
            if (!gone)
                start_session(w, std::move(socket), from);
        } else if (ec != asio::error::connection_aborted) {
            // No file or memory is to be had for the moment.
            pause_.expires_after(std::chrono::milliseconds(100));
            pause_.async_wait([this](net::error_code stopped) {
                if (!stopped)
                    accept();
            });
            return;
        }
        accept();
    });
}

void server::start_session(worker& w, net::tcp_socket socket, net::tcp::endpoint from) {
    // A socket is of the thread that will serve it; so is the session.
    asio::post(w.context(), [&w, from, s = std::move(socket)]() mutable {
        auto one = std::make_unique<session>(w, std::move(s), from.address().to_string());
        asio::co_spawn(w.context(), session::run(std::move(one)), asio::detached);
    });
}

void server::listen_to_signals() {
    signals_.async_wait([this](net::error_code ec, int which) {
        if (ec)
            return;
        listen_to_signals();
        if (which == SIGUSR1)
            tool::complain(report());
        else if (which == SIGHUP)
            reopen_log();
        else if (!draining_)
            drain();
        else
            abort();
    });
}

void server::reopen_log() {
    if (log_)
        log_->reopen();
}

template <class F>
void server::on_each_thread(F f) {
    for (auto& t : threads_)
        asio::post(t->work.context(), [f, &t = *t] { f(t); });
}

void server::drain() {
    draining_ = true;
    net::error_code ignored;
    acceptor_.close(ignored);
    pause_.cancel();
    on_each_thread([](thread& t) {
        t.work.drain();
        t.keeps_running.reset();
    });
    bound_.expires_after(options_.drain);
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

std::string server::report() const {
    auto const sum = [this](counter counters::* which) {
        return std::accumulate(threads_.begin(), threads_.end(), std::uint64_t(0),
                               [which](std::uint64_t n, auto const& t) {
                                   return n + (t->work.counts().*which).value();
                               });
    };
    return fmt::format(
               "weir-proxy: {} connections ({} open), {} requests: {} answered, {} turned away, "
               "{} hung up, {} failed; {} malformed; {} log lines dropped\n",
               sum(&counters::connections), sum(&counters::open), sum(&counters::requests),
               sum(&counters::answered), sum(&counters::turned_away), sum(&counters::hung_up),
               sum(&counters::failed), sum(&counters::malformed), log_ ? log_->dropped() : 0) +
           gate_.report();
}

}  // namespace proxy
