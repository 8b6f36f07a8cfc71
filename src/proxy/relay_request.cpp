#include "relay.hpp"

#include <chrono>
#include <utility>

namespace proxy {

namespace {

// The time between two looks at the demand for the seats of a request. A look takes the lock of each limit with seats.
constexpr std::chrono::seconds between_looks{1};

}  // namespace

// Sends the rest of the body from the client to the upstream.
net::task<> relay::upload() {
    auto& body = x_.request.body;
    auto& in = client_.received;
    if (x_.request.head.expects_continue && !x_.request.body_begun) {
        http::gather const go_on{"HTTP/1.1 100 Continue\r\n\r\n"};
        (void)co_await send_to_client(go_on);
    }
    // The bytes of the body to send. Where bytes are limited, the first ones were read before the head was sent.
    auto part = up_ ? x_.request.first : std::string_view();
    while (!over()) {
        if (part.empty()) {
            upstream_->restart(net::direction::reading, limits_.body + limits_.upstream);
            auto const r = co_await receive_body(client_, clock_, in.room());
            in.commit(r.n);
            if (over())
                co_return;
            if (r.why != failure::none)
                co_return give_up(r.why);
            auto const piece = body.take(in.data(), in.size());
            if (body.bad())
                co_return give_up(failure::body_bad_chunks);
            x_.request.length += piece.body;
            if (is_too_long(x_.request, route_.configuration))
                co_return give_up(failure::body_too_large);
            part = {in.data(), piece.body};
            in.consume(piece.used);  // the bytes stay valid until `in` receives more
        }
        auto const n = up_ ? co_await take_up(part.size()) : part.size();
        if (up_ && over())
            co_return;
        bool const is_last = body.done() && n == part.size();
        http::gather out;
        http::body_writer writer(x_.request.head.body);
        writer.put(out, part.data(), n, is_last);
        // If the upstream stops reading, its response states the reason. Until that arrives, the proxy keeps reading
        // the client's body, since the client may not read a response before it sent everything.
        if (!out.empty() && upload_ == upload_state::sending) {
            net::time_limit const limit(*upstream_, net::direction::writing, limits_.upstream);
            if (co_await upstream_->send(out))
                upload_ = upload_state::unwanted;
        }
        if (up_)
            up_->settle(n);
        part.remove_prefix(n);
        if (is_last) {
            if (upload_ == upload_state::sending)
                upload_ = upload_state::sent;
            upstream_->restart(net::direction::reading, limits_.upstream);
            co_return;
        }
    }
}

// Waits until a part of the body may pass. The upstream cannot respond meanwhile, so its time does not count.
net::task<std::size_t> relay::take_up(std::size_t most) {
    upstream_->restart(net::direction::reading, no_time_limit);
    auto const n = co_await up_->take(most);
    upstream_->restart(net::direction::reading, limits_.upstream + limits_.body);
    co_return n;
}

// Whether the proxy waits for a body that arrives too slowly while other requests lack the seats of this one.
bool relay::delays_others(net::clock::time_point now) {
    if (upload_ == upload_state::sent || configuration_.clients.contended_body_rate == 0 ||
        now < next_demand_)
        return false;
    next_demand_ = now + between_looks;
    auto const before = std::exchange(demand_, route_.entrance.demand_for_seats(entered_));
    bool const was_rejected = before && before->rejected != demand_->rejected;
    return clock_.delays_others(demand_->waiting != 0 || was_rejected);
}

// Stops sending the request: the response is complete, so the rest of the request is not needed.
void relay::end_upload() noexcept {
    if (up_)
        up_->stop();
    if (!x_.request.body.done()) {
        client_.connection.cancel();
        upstream_->cancel();
    }
}

}  // namespace proxy
