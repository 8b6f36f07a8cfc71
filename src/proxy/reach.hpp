#pragma once

#include "failure.hpp"
#include "net/asio.hpp"
#include "upstream.hpp"

#include <boost/container/small_vector.hpp>

#include <cstdint>
#include <optional>
#include <utility>

namespace proxy {

/// A connection to a server, or the reason why there is none.
struct reached {
    upstream::visit at;              // at the server of `connection`; empty without one
    upstream_connection connection;  // empty if no server accepted one
    failure why = failure::none;
    bool lacks_seat = false;  // a server that was not tried may have a free seat later
};

/// Whether a request enters its limits again after the servers that could be reached had no free seat.
///
/// A wait that ended at once has found no seat, but perhaps the end of another server's pause. Such waits are limited, so
/// that a request does not repeat them for ever.
class next_entry {
public:
    /// Call it after each attempt, with the rest of the request's patience and the sum of its waits.
    [[nodiscard]] bool follows(bool lacks_seat, weir::duration patience,
                               weir::duration waited) noexcept {
        if (!lacks_seat || patience <= weir::duration::zero())
            return false;
        if (std::exchange(waited_, waited) != waited)
            at_once_ = 0;
        else
            ++at_once_;
        return at_once_ <= most_at_once;
    }

private:
    static constexpr int most_at_once = 10;

    std::optional<weir::duration> waited_;  // before the last attempt
    int at_once_ = 0;                       // waits in a row that ended at once
};

/// Why no connection could be opened.
[[nodiscard]] inline failure failure_of_opening(net::error_code const& ec) noexcept {
    return ec == asio::error::timed_out ? failure::too_slow
           : tls::is_of_certificate(ec) ? failure::untrusted
           : tls::is_of_tls(ec)         ? failure::tls_failed
                                        : failure::unreachable;
}

/// Connects to the server of `at`, or to other servers if that fails, each within `limit`. A connection with the key
/// `key` has the servers in the order of their ranks for it. Gives up soon after `over()` is true.
template <class Over>
net::task<reached> reach(upstream& to, upstream_pool& pool, upstream::visit at,
                         std::optional<std::uint64_t> key, connection_use use,
                         net::clock::duration limit, Over over) {
    boost::container::small_vector<upstream_server const*, 4> tried;
    reached r{.at = std::move(at), .connection = {}, .why = failure::unreachable};
    use.is_over = over;
    while (r.at && !over()) {
        net::error_code ec;
        r.connection = co_await pool.open(r.at.server(), use, limit, ec);
        if (!r.connection && over())  // no failure of the server
            break;
        to.note(r.at.server(), bool(r.connection));
        if (r.connection) {
            r.why = failure::none;
            co_return r;
        }
        to.report(r.at.server(), ec);
        r.why = failure_of_opening(ec);
        tried.push_back(&r.at.server());
        r.at = {};
        if (to.has_choice())
            r.at = to.choose(tried, key);
    }
    r.at = {};
    r.lacks_seat = !over() && to.may_have_seats_later(tried);
    co_return r;
}

}  // namespace proxy
