#pragma once

#include "config/configuration.hpp"
#include "net/asio.hpp"
#include "plan.hpp"

#include <functional>
#include <memory>
#include <thread>

namespace proxy {

/// Reads the configuration anew, on a thread of its own, so that nobody waits for a slow disk or name server. It is used
/// on the thread of its context.
class reloader {
public:
    /// Reads the configuration that is to hold from now on. Throws what is wrong with it.
    using reader = std::function<config::configuration()>;
    /// Brings it into force, or throws why that cannot be.
    using applier = std::function<void(plan_maker&)>;

    /// Without a reader it does nothing. `in_force` is what the new one follows.
    reloader(asio::io_context& context, reader again, std::shared_ptr<plan const> const& in_force,
             applier apply);
    ~reloader() { join(); }

    /// Reads and applies it, and says what has come of that; once more if it is being read already.
    void start();
    /// It looks at the limits in force.
    [[nodiscard]] bool is_reading() const noexcept { return reads_.joinable(); }
    /// From now on nothing is applied.
    void stop() noexcept { stopped_ = true; }
    /// Waits until nothing is being read.
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
