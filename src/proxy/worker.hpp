#pragma once

#include "counters.hpp"
#include "exchange.hpp"
#include "gate.hpp"
#include "net/asio.hpp"
#include "net/watchdog.hpp"
#include "options.hpp"
#include "pool.hpp"
#include "tool/log_file.hpp"
#include "upstream.hpp"

#include <ctime>
#include <string>
#include <string_view>

namespace proxy {

namespace asio = boost::asio;

/// One thread of the proxy: what its connections share.
class worker {
public:
    /// All three, and `o`, must outlive it. `log` may be null.
    worker(options const& o, upstream& u, gate& entrance, tool::log_file* log);

    [[nodiscard]] options const& settings() const noexcept { return settings_; }
    [[nodiscard]] asio::io_context& context() noexcept { return context_; }
    [[nodiscard]] net::watchdog& dog() noexcept { return dog_; }
    [[nodiscard]] upstream_pool& upstreams() noexcept { return upstreams_; }
    [[nodiscard]] pool<exchange, 256>& exchanges() noexcept { return exchanges_; }
    [[nodiscard]] gate& entrance() noexcept { return entrance_; }
    [[nodiscard]] tool::log_file* log() noexcept { return log_; }
    [[nodiscard]] counters& counts() noexcept { return counts_; }
    [[nodiscard]] counters const& counts() const noexcept { return counts_; }

    /// The time for a Date field; until the next call.
    [[nodiscard]] std::string_view date();

    /// Whether what is being served is the last.
    [[nodiscard]] bool draining() const noexcept { return draining_; }
    void drain();

    /// Cuts off what is still being served.
    void abort();

private:
    options const& settings_;
    asio::io_context context_{1};
    net::watchdog dog_{context_};
    pool<exchange, 256> exchanges_;
    upstream_pool upstreams_;
    gate& entrance_;
    tool::log_file* log_;
    counters counts_;
    bool draining_ = false;
    std::time_t date_of_ = 0;
    std::string date_;
};

}  // namespace proxy
