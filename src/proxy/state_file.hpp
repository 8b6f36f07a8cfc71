#pragma once

#include <weir/saved_file.hpp>

#include "config/configuration.hpp"
#include "limiting/limit.hpp"
#include "net/asio.hpp"
#include "plan.hpp"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace proxy {

namespace asio = boost::asio;

/// The file from which the limits continue after a restart. All members are called on the thread of `context`. Another
/// thread writes the file, so that a slow disk delays no request.
class state_file {
public:
    /// Reads the file, if it exists. A file that is not a whole and valid state is renamed to `FILE.refused`. Throws
    /// `std::runtime_error` if the file cannot be written later, or if it is a directory or a device.
    state_file(asio::io_context& context, config::state_options const& c);
    state_file(state_file const&) = delete;
    ~state_file() { join(); }

    /// Continues the limits of the plan from the file, and reports the limits that cannot continue.
    void restore(plan const& p);

    /// Writes the file from now on in its interval. `in_force` is the plan in force.
    void start(std::shared_ptr<plan const> const& in_force);
    /// Writes the file for the last time.
    void finish(std::shared_ptr<plan const> const& p);

private:
    void read();
    void refuse(std::string_view reason);
    void wait();
    void write_in_background();
    void write_all(std::vector<limiting::saved_part> const& parts);
    void end_writing();
    void join();
    void report(std::string const& failure);

    config::state_options const options_;
    std::optional<weir::saved_state> state_;  // until it is restored
    std::shared_ptr<plan const> const* in_force_ = nullptr;
    net::timer timer_;
    // The states that the other thread writes, and their owner.
    std::shared_ptr<plan const> writing_;
    std::vector<limiting::saved_part> parts_;
    std::thread writer_;
    std::atomic<bool> is_done_ = true;
    std::string failure_;  // of the last writing
};

}  // namespace proxy
