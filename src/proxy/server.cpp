#include "server.hpp"

#include "session.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/post.hpp>

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <numeric>
#include <utility>

namespace proxy {
namespace {

net::listener listen(asio::io_context& context, net::tcp::endpoint const& at,
                     std::string const& text, std::int64_t most) {
    try {
        return net::listener(context, at, most);
    } catch (boost::system::system_error const& e) {
        throw std::runtime_error(fmt::format(
            "cannot listen at {}: {}", text,
            e.code() == asio::error::address_in_use ? "another program already does"
                                                    : e.code().message()));
    }
}

}  // namespace

server::server(options const& o, endpoints const& at, std::string upstream_name)
    : options_(o),
      shares_(share_out_files(o)),
      upstream_(at.upstream, std::move(upstream_name), options_.limits, shares_.upstream),
      listener_(listen(context_, at.listen, o.listen, shares_.clients)),
      engine_(
          o.engine.empty() ? std::nullopt : std::optional(make_engine(context_.get_executor(), o))),
      gate_(context_.get_executor(), options_, engine_ ? engine_->keeper : nullptr),
      probe_(context_),
      signals_(context_),
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
    for (std::int64_t i = 0; i < options_.threads; ++i)
        threads_.push_back(
            std::make_unique<thread>(options_, upstream_, gate_, log_ ? &*log_ : nullptr));
}

server::~server() = default;

void server::run() {
    running_ = threads_.size();
    for (auto& t : threads_)
        t->runs = std::thread([this, &t = *t] {
            t.work.context().run();
            asio::post(context_, [this] { thread_ended(); });
        });
    listen_to_signals();
    probe_upstream();
    prepare_engine();
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
             [this](auto socket, auto const& from, auto admission) {
                 start_session(std::move(socket), from, std::move(admission));
             },
         .trouble =
             [](std::string const& what) {
                 tool::complain(fmt::format("weir-proxy: {}\n", what));
             }});
}

void server::start_session(net::tcp_socket socket, net::tcp::endpoint const& from,
                           net::listener::admission a) {
    auto& w = threads_[next_]->work;
    next_ = (next_ + 1) % threads_.size();
    // A socket is of the thread that will serve it; so is the session.
    asio::post(w.context(), [&w, from, s = std::move(socket), a = std::move(a)]() mutable {
        session::start(std::make_unique<session>(w, std::move(s), from, std::move(a)));
    });
}

// So that a wrong address is noticed before the first request.
void server::probe_upstream() {
    asio::async_connect(probe_, upstream_.endpoints(), [this](net::error_code ec, auto const&) {
        if (ec && ec != asio::error::operation_aborted)
            tool::complain(fmt::format(
                "weir-proxy: warning: nobody answers at {} yet ({}); until then "
                "requests are answered 502\n",
                upstream_.name(), ec.message()));
        net::error_code ignored;
        probe_.close(ignored);
    });
}

// Clients are not kept waiting for it for long.
void server::prepare_engine() {
    if (!engine_)
        return let_clients_in();
    bound_.expires_after(std::chrono::seconds(1));
    bound_.async_wait([this](net::error_code ec) {
        if (!ec)
            let_clients_in();
    });
    asio::any_io_executor const ex = context_.get_executor();
    asio::co_spawn(ex, engine_->prepare(), [this](std::exception_ptr const& failure) {
        let_clients_in();
        try {
            if (failure)
                std::rethrow_exception(failure);
        } catch (std::exception const& e) {
            tool::complain(
                fmt::format("weir-proxy: warning: the engine cannot be asked yet: {}\n", e.what()));
        }
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
    listener_.close();
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
