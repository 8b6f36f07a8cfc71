#pragma once

#include "access_log.hpp"
#include "admin/rejected.hpp"
#include "config/configuration.hpp"
#include "counters.hpp"
#include "exchange.hpp"
#include "record.hpp"
#include "tool/log_file.hpp"
#include "upstream.hpp"

#include <boost/container_hash/hash.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace proxy {

class limit;
class response_counter;
struct plan;

/// A client, or its network as `weir::client_key` defines it, and a limit that rejected it.
struct rejected_client {
    static constexpr std::uint32_t most = 32;  // counters

    std::uint64_t limit = 0;  // its id
    std::uint64_t client = 0;

    friend bool operator==(rejected_client const&, rejected_client const&) = default;
    friend std::size_t hash_value(rejected_client const& r) noexcept {
        std::size_t seed = 0;
        boost::hash_combine(seed, r.limit);
        boost::hash_combine(seed, r.client);
        return seed;
    }
};
using rejected_clients = admin::most_frequent<rejected_client>;

/// A failure at a server of an upstream.
struct upstream_trouble {
    static constexpr std::uint32_t most = 16;  // counters

    std::shared_ptr<upstream const> of;
    upstream_server const* server = nullptr;  // of `of`; null if the request reached no server
    std::string_view why = {};                // a literal

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

/// Records the requests of one thread: in its counters, for the status page, and in the access log. Used on that
/// thread; `counts` may be read on any.
class account {
public:
    /// `log` must outlive it; null if there is none.
    explicit account(tool::log_file* log) noexcept : log_(log) {}

    [[nodiscard]] counters const& counts() const noexcept { return counts_; }
    [[nodiscard]] bool has_log() const noexcept { return log_ != nullptr; }
    [[nodiscard]] counter& tunnels() noexcept { return counts_.tunnels; }

    /// Counts a connection, and counts it as open while the returned object lives.
    [[nodiscard]] counted opens() noexcept {
        ++counts_.connections;
        return counted(counts_.open);
    }

    /// Counts a handshake.
    void shakes_hands(handshake how) noexcept { ++counts_[how]; }

    /// Counts a connection without the header of the PROXY protocol.
    void lacks_introduction(introduction_failure why) noexcept { ++counts_[why]; }

    /// Called when the first bytes arrive: begins the exchange's record.
    void expects(exchange& x) const;
    /// Called when the head is complete: counts the request, gives it an id, which the upstream gets, too, and keeps
    /// its first line for the log.
    void begins(exchange& x, std::string_view line);
    /// Called for a check: the log has the request that it describes.
    void describes(exchange& x) const;
    /// Counts the end of a request, before its response is complete: a client that received the response finds it
    /// counted.
    void ends(record const& r);
    /// Notes a rejection, and a failure at an upstream, for `take_troubles`.
    void rejects(limit const& by, boost::asio::ip::address const& client);
    void fails(upstream_trouble const& t);
    /// Counts the response of a request of the plan `p`, and writes a line to the access log.
    void responds(record const& r, plan const& p, std::string_view peer);

    /// Writes a line to the access log. Precondition: there is one.
    void log(log_line const& line, config::log_format format);

    /// Counts a request as active, or as waiting, while the returned object lives.
    [[nodiscard]] counted serves() noexcept { return counted(counts_.active); }
    [[nodiscard]] counted waits() noexcept { return counted(counts_.waiting); }

    /// Rejections and failures since the previous call.
    struct troubles {
        std::vector<rejected_clients::counter> rejected;
        std::vector<upstream_troubles::counter> upstreams;
    };
    [[nodiscard]] troubles take_troubles();

private:
    void count_response(record const& r, response_counter& of_route, net::clock::duration took);
    void log(record const& r, std::chrono::system_clock::time_point ended,
             net::clock::duration took, std::string_view peer, config::log_format format);

    tool::log_file* log_;
    counters counts_;
    rejected_clients rejected_{rejected_client::most};
    upstream_troubles troubles_{upstream_trouble::most};
    request_ids ids_;
};

}  // namespace proxy
