#include "upstream.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <utility>

namespace proxy {

upstream_server::upstream_server(config::server const& c, std::vector<net::endpoint> at)
    : address_(c.address), name_(to_string(address_)), endpoints_(std::move(at)) {}

void upstream_server::encrypt_by(std::shared_ptr<tls::client const> how) {
    std::lock_guard const lock(encryption_mutex_);
    bool const same = how && encryption_ ? how->is_like(*encryption_) : how == encryption_;
    if (same)
        return;
    encryption_ = std::move(how);
    ++encryption_version_;
}

net::opening upstream_server::opening_for(connection_use const& use) const {
    net::opening how{.introduction = use.introduction, .encrypt = {}, .is_over = use.is_over};
    std::lock_guard const lock(encryption_mutex_);
    if (encryption_)
        how.encrypt = [by = encryption_, inner = use.inner](int descriptor) {
            return by->connect(descriptor, inner);
        };
    return how;
}

bool upstream_server::try_take() noexcept {
    auto n = busy_.load();
    while (n < seats_.load())
        if (busy_.compare_exchange_weak(n, n + 1))
            return true;
    return false;
}

bool upstream_server::try_open() noexcept {
    auto n = open_.load();
    while (n < most_.load())
        if (open_.compare_exchange_weak(n, n + 1))
            return true;
    return false;
}

// A new waiter enters the queue before it checks for a free place, and this function frees a place before it checks the
// queue. So at least one of the two threads sees the change of the other.
void upstream_server::close_one() noexcept {
    open_.fetch_sub(1);
    serve_line();
}

void upstream_server::serve_line() noexcept {
    if (!is_awaited())
        return;
    std::lock_guard const lock(line_mutex_);
    while (!line_.empty() && try_open()) {
        auto const first = std::move(line_.front());
        line_.pop_front();
        --waiting_;
        first->has_come = true;
        asio::post(first->turn.get_executor(), [first] { first->turn.cancel(); });
    }
}

admin::server_state upstream_server::state() const {
    admin::server_state s;
    s.name = name_;
    s.down = down_;
    s.connections = static_cast<std::uint64_t>(std::max<std::int64_t>(open_, 0));
    if (auto const seats = seats_.load(); seats != no_limit)
        s.seats = seats;
    s.responses = responses_.sum();
    s.error_responses = error_responses_;
    s.connect_failures = connect_failures_;
    std::lock_guard const lock(encryption_mutex_);
    if (encryption_)
        s.tls_failures = {refused_certificates_, tls_failures_};
    return s;
}

}  // namespace proxy
