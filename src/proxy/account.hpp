#pragma once

#include "access_log.hpp"
#include "admin/refused.hpp"
#include "config/configuration.hpp"
#include "counters.hpp"
#include "exchange.hpp"
#include "record.hpp"
#include "tool/log_file.hpp"
#include "upstream.hpp"

#include <boost/container_hash/hash.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace proxy {

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
using refused_clients = admin::most_frequent<refused_client>;

/// What a server has not done for a request.
struct upstream_trouble {
    static constexpr std::uint32_t most = 16;  // that are counted at a time

    std::shared_ptr<upstream const> of;
    upstream_server const* server = nullptr;  // one of `of`; null if none could be asked
    std::string_view why = {};                // of a literal

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

/// The one place that is told what has become of the requests of a thread: its counters, what an operator is shown, and
/// the access log. On that thread, but for `counts`.
class account {
public:
    /// `log` must outlive it; null if there is none.
    explicit account(tool::log_file* log) noexcept : log_(log) {}

    [[nodiscard]] counters const& counts() const noexcept { return counts_; }
    [[nodiscard]] counter& tunnels() noexcept { return counts_.tunnels; }

    /// A connection, which is open for as long as that lives.
    [[nodiscard]] counted opens() noexcept {
        ++counts_.connections;
        return counted(counts_.open);
    }

    /// Its first bytes have come, of what may be a request.
    void expects(exchange& x) const;
    /// It is one. `line` is its first, which is kept for the log; so is its id, by which it also goes on.
    void begins(exchange& x, std::string_view line);
    /// Its client, by which the limits know it, is another than the peer.
    void comes_from(exchange& x, boost::asio::ip::address const& client) const;
    /// The record says how. A client that has its answer finds it counted.
    void ends(record const& r);
    /// All has been said.
    void log(record const& r, std::string_view peer, config::log_format format);

    /// What has gone wrong since this was called before.
    struct troubles {
        std::vector<refused_clients::counter> refused;
        std::vector<upstream_troubles::counter> upstreams;
    };
    [[nodiscard]] troubles take_troubles();

private:
    tool::log_file* log_;
    counters counts_;
    refused_clients refused_{refused_client::most};
    upstream_troubles troubles_{upstream_trouble::most};
    request_ids ids_;
};

}  // namespace proxy
