#pragma once

#include "admin/site.hpp"
#include "config/configuration.hpp"
#include "file_shares.hpp"
#include "health.hpp"
#include "net/asio.hpp"
#include "net/listener.hpp"
#include "plan.hpp"
#include "tool/log_file.hpp"
#include "tool/systemd.hpp"
#include "upstream.hpp"
#include "worker.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/signal_set.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace proxy {

namespace asio = boost::asio;

/// The proxy: one thread that accepts, and hands connections to the threads in turn, and the end of it all.
///
/// The kernel's own way of sharing them out (SO_REUSEPORT) goes by a hash, and leaves threads idle.
class server {
public:
    /// Reads the configuration that is to hold from now on. Throws what is wrong with it.
    using reader = std::function<config::configuration()>;

    /// Listens. `c.threads` is known. Throws `std::runtime_error` saying what cannot be had, and `tool::usage_error`. On SIGHUP
    /// it goes on with what `again` reads, if there is one: on a thread of its own, so that nobody waits for a slow disk or
    /// name server.
    explicit server(config::configuration const& c, reader again = nullptr);
    ~server();

    [[nodiscard]] std::list<net::listener::door> const& doors() const { return listener_.doors(); }
    /// Where it tells what it does; null if nowhere.
    [[nodiscard]] net::listener::door const* admin_door() const {
        return admin_ ? admin_->door() : nullptr;
    }

    /// Serves until SIGINT or SIGTERM, and until what is being served then has finished.
    void run();

    /// What was done, in a few lines.
    [[nodiscard]] std::string report() const;

private:
    struct thread {
        thread(std::shared_ptr<plan const> p, upstream_pool::all& pools, tool::log_file* l)
            : work(std::move(p), pools, l), keeps_running(work.context().get_executor()) {}
        worker work;
        asio::executor_work_guard<net::executor> keeps_running;
        std::thread runs;
        std::uint64_t collected = 0;  // requests that have failed when they were last
    };

    struct loaded;

    std::vector<net::listener::door*> open_doors(config::configuration const& c);
    void open_admin(config::admin_options const& a);
    [[nodiscard]] admin::state look() const;
    [[nodiscard]] admin::answer change_limit(std::string_view name, std::string_view rule,
                                             std::string const& client);
    void go_on();
    void collect();
    [[nodiscard]] std::uint64_t sum(counter counters::* which) const;
    void open_door(config::listener const& l, std::vector<net::listener::door*>& opened);
    void reload();
    void finish_reload(loaded const& l);
    void apply(plan_maker& maker);
    void let_clients_in();
    void probe_upstreams();
    void prepare_engines(std::function<void()> ready);
    void listen_to_signals();
    void drain();
    void start_session(net::stream_socket socket, net::endpoint const& from,
                       net::listener::admission a, net::listener::door const& by);
    void thread_ended();
    void abort();
    template <class F>
    void on_each_thread(F f);

    file_shares shares_;
    reader again_;
    asio::io_context context_{1};  // of the doors and the limits, on the caller's thread
    net::watchdog dog_{context_};
    net::listener listener_;
    std::optional<tool::log_file> log_;
    upstream_pool::all pools_;
    std::vector<std::unique_ptr<thread>> threads_;
    std::shared_ptr<plan const> plan_;
    std::vector<std::weak_ptr<limit>> limits_;  // of all plans, until they have gone
    std::optional<health_checks> checks_;
    std::vector<std::pair<std::string, int>> inherited_ =
        tool::inherited_sockets();  // and not taken yet
    std::thread loads_;             // a configuration
    bool loads_again_ = false;      // since another signal came meanwhile
    std::list<net::stream_socket> probes_;
    asio::signal_set signals_;
    net::timer bound_;
    net::timer second_;
    std::optional<admin::site> admin_;
    std::chrono::system_clock::time_point started_ = std::chrono::system_clock::now();
    std::size_t next_ = 0;
    std::size_t running_ = 0;
    bool open_ = false;
    bool draining_ = false;
};

}  // namespace proxy
