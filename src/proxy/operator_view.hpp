#pragma once

#include <weir/agent/server.hpp>

#include "admin/site.hpp"
#include "config/configuration.hpp"
#include "counters.hpp"
#include "net/asio.hpp"
#include "net/listener.hpp"
#include "net/watchdog.hpp"
#include "plan.hpp"
#include "previewer.hpp"
#include "threads.hpp"
#include "tool/log_file.hpp"
#include "tool/trouble.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace proxy {

enum class phase : std::uint8_t { starting, serving, draining };

/// The administrator's view of the proxy: the live page, metrics, changes of rules, the report, and warnings about
/// failed requests.
class operator_view {
public:
    /// The observed objects, which must outlive the view.
    struct sources {
        std::shared_ptr<proxy::plan const> const& plan;
        phase const& now;
        proxy::threads& threads;
        tool::log_file const* log;                   // may be null
        weir::agent::server const* agent = nullptr;  // may be null
        std::function<bool()> is_changing;           // whether a reload is reading the limits
    };

    operator_view(asio::io_context& context, net::watchdog& dog, sources s);

    /// Opens the admin listener if the configuration has one. Throws `std::runtime_error` if it cannot be opened.
    void open(config::admin_options const& a, std::int64_t most_connections);
    /// The admin listener; null if the configuration has none.
    [[nodiscard]] net::listener::acceptor const* acceptor() const {
        return site_ ? site_->acceptor() : nullptr;
    }
    /// Begins to serve the page, and updates its numbers each second.
    void start();

    /// Reports an error that may occur often: immediately the first time, and then its repetitions once a minute after
    /// `start`. `text` has no newline at its end.
    void warn(std::string_view text, std::uint64_t times = 1);

    /// The counters of the proxy and of each limit, as text.
    [[nodiscard]] std::string report() const;

private:
    [[nodiscard]] admin::state look() const;
    [[nodiscard]] std::optional<admin::agent_state> agent() const;
    /// Calls `f` with the limit of that name, unless a reload is in progress.
    template <class F>
    [[nodiscard]] admin::answer with_limit(std::string_view name, F f) const;
    [[nodiscard]] net::task<admin::answer> preview(std::string name, std::string rule);
    void go_on();
    void collect();
    void watch_introductions();
    void watch_keys();

    asio::io_context& context_;
    net::watchdog& dog_;
    sources const of_;
    net::timer second_;
    tool::troubles troubles_;
    previewer previews_;
    std::optional<admin::site> site_;
    std::array<std::uint64_t, introduction_failures> told_introductions_{};
    std::set<std::uint64_t> full_of_keys_;  // limits, by id
    std::chrono::system_clock::time_point const started_ = std::chrono::system_clock::now();
};

}  // namespace proxy
