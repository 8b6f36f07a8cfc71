#pragma once

#include "admin/site.hpp"
#include "config/configuration.hpp"
#include "net/asio.hpp"
#include "net/listener.hpp"
#include "net/watchdog.hpp"
#include "plan.hpp"
#include "threads.hpp"
#include "tool/log_file.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace proxy {

enum class phase : std::uint8_t { starting, serving, draining };

/// What an operator sees and changes: the page and its numbers, the rules of limits, the report, and what is said of
/// requests that go wrong.
class operator_view {
public:
    /// What it looks at. All of it outlives the view.
    struct sources {
        std::shared_ptr<proxy::plan const> const& plan;
        phase const& now;
        proxy::threads& threads;
        tool::log_file const* log;          // null if there is none
        std::function<bool()> is_changing;  // whether the limits must be left alone for the moment
    };

    operator_view(asio::io_context& context, net::watchdog& dog, sources s);

    /// Listens, if it is to be shown anywhere. Throws `std::runtime_error` if it cannot.
    void open(config::admin_options const& a, std::int64_t most_connections);
    /// Null if it is shown nowhere.
    [[nodiscard]] net::listener::door const* door() const {
        return site_ ? site_->door() : nullptr;
    }
    /// From now on it is shown, and is up to date each second.
    void start();

    /// What was done, in a few lines.
    [[nodiscard]] std::string report() const;

private:
    [[nodiscard]] admin::state look() const;
    [[nodiscard]] admin::answer change_limit(std::string_view name, std::string_view rule,
                                             std::string const& client) const;
    void go_on();
    void collect();

    asio::io_context& context_;
    net::watchdog& dog_;
    sources const of_;
    net::timer second_;
    std::optional<admin::site> site_;
    std::chrono::system_clock::time_point const started_ = std::chrono::system_clock::now();
};

}  // namespace proxy
