#pragma once

#include "admin/site.hpp"
#include "arrivals.hpp"
#include "config/configuration.hpp"
#include "net/asio.hpp"

#include <atomic>
#include <optional>
#include <thread>

namespace proxy {

/// Makes previews on a separate thread, one at a time, so that no request waits for them. Its members are called on
/// the thread of `context`, which must not be run or polled after the destruction of this object.
class previewer {
public:
    explicit previewer(net::asio::io_context& context) noexcept : context_(context) {}
    previewer(previewer const&) = delete;
    ~previewer();

    /// Returns the response for a preview of the rule of `then`, or of the larger rule that rejects few requests if there
    /// is none. The status is 400 if no limiter of this kind can have the rule, and 503 while another preview is in
    /// progress.
    [[nodiscard]] net::task<admin::answer> run(config::limit now, std::optional<config::limit> then,
                                               arrivals::copy record);

private:
    net::asio::io_context& context_;
    std::thread thread_;
    std::atomic<bool> stop_ = false;
};

}  // namespace proxy
