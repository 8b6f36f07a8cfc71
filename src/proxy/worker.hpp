#pragma once

#include "access_log.hpp"
#include "admin/refused.hpp"
#include "counters.hpp"
#include "exchange.hpp"
#include "net/asio.hpp"
#include "net/watchdog.hpp"
#include "plan.hpp"
#include "pool.hpp"
#include "tool/log_file.hpp"
#include "upstream.hpp"

#include <boost/container_hash/hash.hpp>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace proxy {

namespace asio = boost::asio;

using exchanges = pool<exchange, 256>;

/// Whom a limit has refused: a client, or its network, as `weir::client_key` has it.
struct refused_client {
    static constexpr std::uint32_t most = 32;  // that are counted at a time

    std::uint64_t limit = 0;  // its id
    std::uint64_t client = 0;

    friend bool operator==(refused_client const&, refused_client const&) = default;
    friend std::size_t hash_value(refused_client const& r) noexcept {
        std::size_t seed = 0;
        boost::hash_combine(seed, r.limit);
        boost::hash_combine(seed, r.client);
        return seed;
    }
};
/// What a server has not done for a request.
struct upstream_trouble {
    static constexpr std::uint32_t most = 16;  // that are counted at a time

    std::shared_ptr<upstream const> of;
    upstream_server const* server = nullptr;  // one of `of`; null if none could be asked
    char const* why = nullptr;

    friend bool operator==(upstream_trouble const&, upstream_trouble const&) = default;
    friend std::size_t hash_value(upstream_trouble const& t) noexcept {
        std::size_t seed = 0;
        boost::hash_combine(seed, t.of.get());
        boost::hash_combine(seed, t.server);
        boost::hash_combine(seed, t.why);
        return seed;
    }
};
using upstream_troubles = admin::most_frequent<upstream_trouble>;

using refused_clients = admin::most_frequent<refused_client>;

/// One thread of the proxy: what its connections share.
class worker {
public:
    /// `pools` and `log` must outlive it; `log` may be null.
    worker(std::shared_ptr<plan const> p, upstream_pool::all& pools, tool::log_file* log);

    /// What holds for the next request.
    [[nodiscard]] std::shared_ptr<plan const> const& in_force() const noexcept { return plan_; }
    [[nodiscard]] config::timeouts const& limits() const noexcept {
        return plan_->configuration.timeouts;
    }
    [[nodiscard]] config::clients_options const& clients() const noexcept {
        return plan_->configuration.clients;
    }
    [[nodiscard]] config::log_format log_format() const noexcept {
        return plan_->configuration.access_log_format;
    }
    /// On its thread.
    void use(std::shared_ptr<plan const> p);

    [[nodiscard]] asio::io_context& context() noexcept { return context_; }
    [[nodiscard]] net::watchdog& dog() noexcept { return dog_; }
    [[nodiscard]] upstream_pool& upstreams() noexcept { return upstreams_; }
    /// Memory that was not needed for a second goes back to the system.
    [[nodiscard]] exchanges::handle take_exchange();
    /// Whether so many are in use that those which are not needed for the moment are to come back.
    [[nodiscard]] bool crowded() const noexcept {
        return exchanges_.crowded(counts_.tunnels.value());
    }
    [[nodiscard]] tool::log_file* log() noexcept { return log_; }
    [[nodiscard]] request_ids& ids() noexcept { return ids_; }
    /// What has gone wrong with requests since it was taken away; on its thread.
    [[nodiscard]] upstream_troubles& troubles() noexcept { return troubles_; }
    [[nodiscard]] counters& counts() noexcept { return counts_; }
    /// Whom which limit has refused since they were taken away; on its thread.
    [[nodiscard]] refused_clients& refused() noexcept { return refused_; }
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

    std::shared_ptr<plan const> plan_;
    asio::io_context context_{1};
    net::watchdog dog_{context_};
    exchanges exchanges_;
    upstream_pool upstreams_;
    tool::log_file* log_;
    counters counts_;
    refused_clients refused_{refused_client::most};
    upstream_troubles troubles_{upstream_trouble::most};
    request_ids ids_;
    bool draining_ = false;
    net::timer tidy_{context_};
    bool tidies_ = false;
    std::time_t date_of_ = 0;
    std::string date_;
};

}  // namespace proxy
