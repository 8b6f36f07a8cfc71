#include "relay.hpp"

namespace proxy {

// Sends the rest of the body from the client to the upstream.
net::task<> relay::upload() {
    auto& body = x_.request.body;
    auto& in = client_.received;
    if (x_.request.head.expects_continue && !x_.request.body_begun) {
        http::gather const go_on{"HTTP/1.1 100 Continue\r\n\r\n"};
        (void)co_await send_to_client(go_on);
    }
    while (!over()) {
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
        http::gather out;
        http::body_writer writer(x_.request.head.body);
        writer.put(out, in.data(), piece.body, body.done());
        // If the upstream stops reading, its response states the reason. Until that arrives, the proxy keeps reading
        // the client's body, since the client may not read a response before it sent everything.
        if (!out.empty() && upload_ == upload_state::sending) {
            net::time_limit const limit(*upstream_, net::direction::writing, limits_.upstream);
            if (co_await upstream_->send(out))
                upload_ = upload_state::unwanted;
        }
        in.consume(piece.used);
        if (body.done()) {
            if (upload_ == upload_state::sending)
                upload_ = upload_state::sent;
            upstream_->restart(net::direction::reading, limits_.upstream);
            co_return;
        }
    }
}

// Stops sending the request: the response is complete, so the rest of the request is not needed.
void relay::end_upload() noexcept {
    if (!x_.request.body.done()) {
        client_.connection.cancel();
        upstream_->cancel();
    }
}

}  // namespace proxy
