#pragma once

#include "admin/state.hpp"
#include "counters.hpp"
#include "net/asio.hpp"
#include "net/listener.hpp"
#include "plan.hpp"
#include "tool/log_file.hpp"
#include "upstream.hpp"
#include "worker.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace proxy {

namespace asio = boost::asio;

/// The threads that serve clients, each with its worker. The members of this class are called on the thread of
/// `context`, except `next`, `advance` and `serve`, which are called on the thread that accepts.
class threads {
public:
    explicit threads(asio::io_context& context) noexcept : context_(context) {}

    /// Adds `n` threads that are not started yet. `log` must outlive them, and may be null.
    void add(std::int64_t n, std::shared_ptr<plan const> const& p, tool::log_file* log);

    /// Starts all threads. Calls `ended` when the last one ends.
    void run(std::function<void()> const& ended);
    void join();

    /// The context of the thread that accepts connections: with a single serving thread, that one, so that no
    /// connection passes from one thread to another. Otherwise `context`.
    [[nodiscard]] asio::io_context& accepting() noexcept {
        return is_alone() ? all_.front()->work.context() : context_;
    }
    /// Serves a connection, whose socket has the context of `next()`, and advances. Call it on the thread of
    /// `accepting()`.
    void serve(net::arrival a);

    /// The worker for the next connection.
    [[nodiscard]] worker& next() noexcept { return all_[next_]->work; }
    /// Selects the following worker for the next connection.
    void advance() noexcept { next_ = (next_ + 1) % all_.size(); }

    /// Posts `f(worker&)` to each thread.
    template <class F>
    void on_each(F const& f) {
        for (auto& t : all_)
            asio::post(t->work.context(), [f, &w = t->work] { f(w); });
    }
    /// Posts `f(worker&)` to each thread where a limit rejected a request, or a request failed, since the previous
    /// call.
    template <class F>
    void on_each_with_trouble(F const& f) {
        for (auto& t : all_)
            if (has_new_trouble(*t))
                asio::post(t->work.context(), [f, &w = t->work] { f(w); });
    }

    /// Lets each thread finish its requests and then end.
    void drain();
    /// Closes the remaining connections.
    void abort();
    /// Ends the threads, finished or not.
    void stop();

    /// The sum of a counter over all threads.
    template <class Which>
    [[nodiscard]] std::uint64_t sum(Which which) const {
        std::uint64_t n = 0;
        for (auto const& t : all_)
            n += t->work.accounting().counts()[which].value();
        return n;
    }
    /// The responses of all threads by class, as in `admin::state`.
    [[nodiscard]] std::array<std::uint64_t, admin::state::classes> responses() const;
    /// Their times.
    [[nodiscard]] weir::wait_histogram response_times() const;

private:
    struct one {
        one(std::shared_ptr<plan const> const& p, upstream_pool::all& pools, tool::log_file* log)
            : work(p, pools, log), keeps_running(work.context().get_executor()) {}
        worker work;
        asio::executor_work_guard<net::executor> keeps_running;
        std::thread runs;
        std::uint64_t troubles = 0;  // at the previous on_each_with_trouble
    };

    [[nodiscard]] bool is_alone() const noexcept { return all_.size() == 1; }
    [[nodiscard]] static bool has_new_trouble(one& t) noexcept;

    asio::io_context& context_;
    upstream_pool::all pools_;
    std::vector<std::unique_ptr<one>> all_;
    std::size_t next_ = 0;
    std::size_t running_ = 0;
};

}  // namespace proxy
