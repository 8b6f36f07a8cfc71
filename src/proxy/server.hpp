#pragma once

#include "engine.hpp"
#include "file_shares.hpp"
#include "gate.hpp"
#include "net/asio.hpp"
#include "net/listener.hpp"
#include "options.hpp"
#include "tool/log_file.hpp"
#include "worker.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/signal_set.hpp>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace proxy {

namespace asio = boost::asio;

struct endpoints {
    net::tcp::endpoint listen;
    std::vector<net::tcp::endpoint> upstream;
};

/// The proxy: one acceptor, which hands connections to the threads in turn, and the end of it all.
///
/// The kernel's own way of sharing them out (SO_REUSEPORT) goes by a hash, and leaves threads idle.
class server {
public:
    /// Listens. Throws `std::runtime_error` saying what cannot be had.
    server(options const& o, endpoints const& at, std::string upstream_name);
    ~server();

    /// The port in truth, where 0 was asked for.
    [[nodiscard]] net::tcp::endpoint listens_at() const { return listener_.listens_at(); }

    /// Serves until SIGINT or SIGTERM, and until what is being served then has finished.
    void run();

    /// What was done, in a few lines.
    [[nodiscard]] std::string report() const;

private:
    struct thread {
        thread(options const& o, upstream& u, gate& g, tool::log_file* l)
            : work(o, u, g, l), keeps_running(work.context().get_executor()) {}
        worker work;
        asio::executor_work_guard<net::executor> keeps_running;
        std::thread runs;
    };

    void let_clients_in();
    void probe_upstream();
    void prepare_engine();
    void listen_to_signals();
    void reopen_log();
    void drain();
    void start_session(net::tcp_socket socket, net::tcp::endpoint const& from,
                       net::listener::admission a);
    void thread_ended();
    void abort();
    template <class F>
    void on_each_thread(F f);

    options options_;
    file_shares shares_;
    upstream upstream_;
    asio::io_context context_{1};  // of the acceptor and the gate, on the caller's thread
    net::listener listener_;
    std::optional<tool::log_file> log_;
    std::vector<std::unique_ptr<thread>> threads_;
    std::optional<engine> engine_;
    gate gate_;  // ends before the threads, on which its waiters are told
    net::tcp_socket probe_;
    asio::signal_set signals_;
    net::timer bound_;
    std::size_t next_ = 0;
    std::size_t running_ = 0;
    bool open_ = false;
    bool draining_ = false;
};

}  // namespace proxy
