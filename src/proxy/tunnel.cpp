#include "tunnel.hpp"

#include "tool/memory.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <tuple>
#include <utility>

namespace proxy {

namespace asio = boost::asio;

namespace {

// Then the buffers return their memory.
constexpr std::chrono::seconds silence{1};

}  // namespace

tunnel::tunnel(net::watchdog& dog, side client, side upstream, limits const& l, transfers const& by)
    : limits_(l),
      up_{.from = client, .to = upstream, .by = by.up, .counted = by.sent_up},
      down_{.from = upstream, .to = client, .by = by.down, .counted = by.sent_down},
      last_(net::clock::now()) {
    dog.add(*this);
}

net::task<> tunnel::run() {
    auto const here = co_await asio::this_coro::executor;
    bool uploads = true;
    net::timer uploaded(here);
    auto const end = [&](std::exception_ptr const&) {
        uploads = false;
        uploaded.cancel();
    };
    auto download = relay(down_);  // its memory exists before the upload begins
    asio::co_spawn(here, relay(up_), end);
    co_await std::move(download);
    while (uploads) {
        uploaded.expires_after(std::chrono::hours(1));  // the end of the upload ends it
        co_await uploaded.async_wait(net::as_values);
    }
}

net::clock::time_point tunnel::look(net::clock::time_point now) {
    bool const is_limited = up_.is_limited_now() || down_.is_limited_now();
    if (moved_ || is_limited) {
        moved_ = false;
        keeps_memory_ = true;
        last_ = now;
    }
    if (keeps_memory_ && now >= last_ + silence)
        give_memory_back();
    if (limits_.leaves && !end_)
        end_ = now + limits_.drain;
    auto const due = std::min(last_ + limits_.idle, end_.value_or(net::clock::time_point::max()));
    if (now >= due) {
        close();
        return net::clock::time_point::max();
    }
    // A direction that waits to send reads nothing, so a reset must be looked for.
    for (auto const* const d : {&up_, &down_})
        if ((d->waits || d->is_limited_now()) && d->from.connection.is_reset())
            reset();
    if (up_.waits || down_.waits || is_limited)
        return now;
    return keeps_memory_ ? std::min(due, last_ + silence) : due;
}

// A buffer without content has no page that must stay.
void tunnel::give_memory_back() noexcept {
    keeps_memory_ = false;
    for (auto* const d : {&up_, &down_})
        if (d->from.received.empty())
            tool::give_pages_back(d->from.received.room());
}

void tunnel::note_move() {
    moved_ = true;
    look_soon();
}

// Without memory a direction ends with a reset.
net::task<> tunnel::relay(direction& d) {
    auto& in = d.from.received;
    try {
        for (;;) {
            auto ec = co_await send(d);
            if (ec)
                co_return reset();
            std::size_t n = 0;
            std::tie(ec, n) = co_await d.from.connection.receive(in.room());
            if (ec == asio::error::eof) {
                d.waits = true;
                look_soon();
                ec = co_await d.to.connection.end_output();
                d.waits = false;
                if (!ec)
                    co_return;
            }
            if (ec)
                co_return reset();
            in.commit(n);
            note_move();
        }
    } catch (std::exception const&) {
        reset();
    }
}

net::task<net::error_code> tunnel::send(direction& d) {
    auto& in = d.from.received;
    while (!in.empty()) {
        auto most = in.size();
        if (d.by) {
            look_soon();
            most = co_await d.by->take(most);
            if (stopped_)
                co_return asio::error::operation_aborted;
        }
        net::error_code ec;
        http::gather rest{in.text().substr(0, most)};
        static_cast<void>(d.to.connection.send_now(rest, ec));
        auto const left = rest.empty() ? 0 : rest.front().size();
        if (d.by)
            d.by->settle(most - left);
        if (left < most)
            note_move();
        d.sent += most - left;
        if (d.counted)
            d.counted->fetch_add(most - left, std::memory_order_relaxed);
        in.consume(most - left);
        if (!ec && left > 0) {
            d.waits = true;
            look_soon();
            std::tie(ec) = co_await d.to.connection.wait(net::stream_socket::wait_write);
            d.waits = false;
        }
        if (ec)
            co_return ec;
    }
    co_return net::error_code();
}

void tunnel::stop() noexcept {
    stopped_ = true;
    for (auto* const d : {&up_, &down_})
        if (d->by)
            d->by->stop();
}

void tunnel::close() noexcept {
    stop();
    up_.from.connection.close();
    up_.to.connection.close();
}

void tunnel::reset() noexcept {
    stop();
    up_.from.connection.reset();
    up_.to.connection.reset();
}

}  // namespace proxy
