#pragma once

#include "gate.hpp"
#include "net/asio.hpp"
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

/// The proxy: one acceptor, which hands connections to the threads in turn, and the end of it all.
///
/// The kernel's own way of sharing them out (SO_REUSEPORT) goes by a hash, and leaves threads idle.
class server {
public:
    /// Listens. Throws `std::runtime_error` saying what cannot be had.
    server(options const& o, net::tcp::endpoint const& at, std::string name);
    ~server();

    /// The port in truth, where 0 was asked for.
    [[nodiscard]] net::tcp::endpoint listens_at() const;

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

    void accept();
    void listen_to_signals();
    void reopen_log();
    void drain();
    void start_session(worker& w, net::tcp_socket socket, net::tcp::endpoint from);
    void thread_ended();
    void abort();
    template <class F>
    void on_each_thread(F f);

    options options_;
    upstream upstream_;
    asio::io_context context_{1};  // of the acceptor and the gate, on the caller's thread
    std::optional<tool::log_file> log_;
    std::vector<std::unique_ptr<thread>> threads_;
    gate gate_;  // ends before the threads, on which its waiters are told
    net::tcp_acceptor acceptor_;
    asio::signal_set signals_;
    net::timer pause_;
    net::timer bound_;
    std::size_t next_ = 0;
    std::size_t running_ = 0;
    bool draining_ = false;
};

}  // namespace proxy
