#pragma once

#include "config/configuration.hpp"
#include "net/asio.hpp"
#include "plan.hpp"

#include <functional>
#include <memory>
#include <thread>

namespace proxy {

/// Reloads the configuration. It reads on a separate thread, so that a slow disk or name server delays no request. Its
/// members are called on the thread of `context`.
class reloader {
public:
    /// Returns the new configuration, or throws its errors.
    using reader = std::function<config::configuration()>;
    /// Puts a new plan into force, or throws the reason for the failure.
    using applier = std::function<void(plan_maker&)>;

    /// Without a reader, `start` has no effect. `in_force` is the current plan.
    reloader(asio::io_context& context, reader again, std::shared_ptr<plan const> const& in_force,
             applier apply);
    ~reloader() { join(); }

    /// Reads the configuration, applies it, and reports the result. If a reload is in progress, another one follows it.
    void start();
    /// Whether a reload is in progress. It reads the limits in force, which must not change meanwhile.
    [[nodiscard]] bool is_reading() const noexcept { return reads_.joinable(); }
    /// Discards the result of a reload in progress, and applies no further one.
    void stop() noexcept { stopped_ = true; }
    /// Waits until no reload is in progress.
    void join();

private:
    struct loaded;

    [[nodiscard]] loaded load(std::shared_ptr<plan const> const& before) const;
    void finish(loaded const& l);

    asio::io_context& context_;
    reader again_;
    std::shared_ptr<plan const> const& in_force_;
    applier apply_;
    std::thread reads_;
    bool once_more_ = false;
    bool stopped_ = false;
};

}  // namespace proxy
