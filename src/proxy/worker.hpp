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

using exchanges = pool<exchange, 256>;

/// One thread of the proxy: what its connections share.
class worker {
public:
    /// All three, and `o`, must outlive it. `log` may be null.
    worker(options const& o, upstream& u, gate& entrance, tool::log_file* log);

    [[nodiscard]] options const& settings() const noexcept { return settings_; }
    [[nodiscard]] asio::io_context& context() noexcept { return context_; }
    [[nodiscard]] net::watchdog& dog() noexcept { return dog_; }
    [[nodiscard]] upstream_pool& upstreams() noexcept { return upstreams_; }
    /// Memory that was not needed for a second goes back to the system.
    [[nodiscard]] exchanges::handle take_exchange();
    /// Whether so many are in use that those which are not needed for the moment are to come back.
    [[nodiscard]] bool crowded() const noexcept { return exchanges_.crowded(); }
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
    void tidy_soon();

    options const& settings_;
    asio::io_context context_{1};
    net::watchdog dog_{context_};
    exchanges exchanges_;
    upstream_pool upstreams_;
    gate& entrance_;
    tool::log_file* log_;
    counters counts_;
    bool draining_ = false;
    net::timer tidy_{context_};
    bool tidies_ = false;
    std::time_t date_of_ = 0;
    std::string date_;
};

}  // namespace proxy
