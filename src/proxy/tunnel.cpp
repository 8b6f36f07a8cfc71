#include "tunnel.hpp"

#include <boost/asio/append.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

namespace proxy {

namespace asio = boost::asio;

namespace {

// The most buffers that a direction reads before the thread serves other connections.
constexpr int longest_run = 8;

// How often a side that has ended its output is asked whether it was reset. It could be idle for hours.
constexpr std::chrono::seconds look_at_ended{1};

// Without a byte for this time, the sides are between two messages.
constexpr std::chrono::seconds pause_between_messages{1};

}  // namespace

// The handler of all waits of a direction. It owns the tunnel.
class tunnel::step {
public:
    step(std::shared_ptr<tunnel> of, direction& d) noexcept : of_(std::move(of)), direction_(&d) {}

    [[nodiscard]] direction& way() const noexcept { return *direction_; }

    using allocator_type = handler::allocator_type;
    [[nodiscard]] allocator_type get_allocator() const noexcept {
        return of_->done_.get_allocator();
    }
    void operator()(net::error_code ec) const { of_->go_on(*this, ec); }

private:
    std::shared_ptr<tunnel> of_;
    direction* direction_;
};

tunnel::tunnel(workspaces& spaces, net::watchdog& dog, side client, side upstream, limits const& l,
               transfers const& by)
    : spaces_(spaces),
      limits_(l),
      up_{.from = client.connection,
          .to = upstream.connection,
          .by = by.up,
          .counted = by.sent_up,
          .unsent = std::move(client.unsent)},
      down_{.from = upstream.connection,
            .to = client.connection,
            .by = by.down,
            .counted = by.sent_down,
            .unsent = std::move(upstream.unsent)},
      last_(net::clock::now()) {
    dog.add(*this);
}

// The caller keeps no owner, so that the tunnel ends with its last step.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
void tunnel::begin(std::shared_ptr<tunnel> t, handler done) {
    auto const executor = asio::get_associated_executor(done, t->up_.from.get_executor());
    t->work_ = asio::prefer(executor, asio::execution::outstanding_work.tracked);
    t->done_ = std::move(done);
    if (auto slot = asio::get_associated_cancellation_slot(t->done_); slot.is_connected())
        slot.assign([all = t.get()](asio::cancellation_type) { all->reset(); });
    for (auto* const d : {&t->down_, &t->up_})
        t->go_on({t, *d}, {});
}

// ---- The way of the bytes
//
// A direction reads, sends all bytes that it read, and reads again. Each step does all that it can do now. Then it
// awaits what it lacks, and continues in `go_on`. Without memory a direction ends with a reset.

void tunnel::go_on(step const& mine, net::error_code ec) {
    auto& d = mine.way();
    if (ec)
        return fail(d);
    try {
        switch (d.awaits) {
            case need::bytes:
                return read(mine);
            case need::permits:
            case need::room:
                if (send(mine))
                    await(mine, need::bytes);
                return;
            case need::room_for_end:
                return end_output(mine);
            case need::nothing:
                return;
        }
    } catch (std::exception const&) {
        fail(d);
    }
}

// A full buffer shows that more bytes have arrived. Reading them now saves the wait, which costs as much as the read.
void tunnel::read(step const& mine) {
    auto& d = mine.way();
    for (int n = 0; n != longest_run; ++n) {
        auto bytes = spaces_.take_buffer();
        net::error_code ec;
        bytes->commit(d.from.receive_now(bytes->room(), ec));
        if (ec == asio::error::would_block)
            break;
        if (ec == asio::error::eof)
            return end_output(mine);
        if (ec)
            return fail(d);
        bool const was_full = bytes->room().empty();
        d.unsent = std::move(bytes);
        note_move();
        if (!send(mine))
            return;
        if (!was_full)
            break;
    }
    await(mine, need::bytes);
}

// Sends all bytes, in parts that have their permits. Returns false if it awaits something, or failed.
bool tunnel::send(step const& mine) {
    auto& d = mine.way();
    while (d.unsent && !d.unsent->empty()) {
        auto most = d.unsent->size();
        if (d.by && d.granted == 0)
            d.granted = d.by->take_at_once(most);
        if (d.by) {
            most = std::exchange(d.granted, 0);
            if (most == 0) {
                await_permits(mine);
                return false;
            }
        }
        if (!send_now(mine, most))
            return false;
    }
    d.unsent.reset();
    return true;
}

// Sends the next bytes. Returns false if it could not send all of them.
bool tunnel::send_now(step const& mine, std::size_t most) {
    auto& d = mine.way();
    net::error_code ec;
    http::gather rest{d.unsent->text().substr(0, most)};
    static_cast<void>(d.to.send_now(rest, ec));
    auto const n = most - (rest.empty() ? 0 : rest.front().size());
    if (d.by)
        d.by->settle(n);
    if (n > 0)
        note_move();
    d.sent += n;
    if (d.counted)
        d.counted->fetch_add(n, std::memory_order_relaxed);
    d.unsent->consume(n);
    if (ec)
        fail(d);
    else if (n < most)
        await(mine, need::room);
    return n == most && !ec;
}

void tunnel::end_output(step const& mine) {
    auto& d = mine.way();
    net::error_code ec;
    if (!d.to.end_output_now(ec))
        return await(mine, need::room_for_end);
    if (ec)
        return fail(d);
    end(d);
}

void tunnel::await(step const& mine, need what) {
    auto& d = mine.way();
    d.awaits = what;
    if (what == need::bytes)
        return d.from.wait(net::stream_socket::wait_read, mine);
    look_soon();
    d.to.wait(net::stream_socket::wait_write, mine);
}

void tunnel::await_permits(step const& mine) {
    auto& d = mine.way();
    d.awaits = need::permits;
    look_soon();
    asio::co_spawn(d.to.get_executor(), d.by->take(d.unsent->size()),
                   [this, mine](std::exception_ptr const& failed, std::size_t n) {
                       mine.way().granted = n;
                       bool const is_over = failed || stopped_;
                       go_on(mine, is_over ? asio::error::operation_aborted : net::error_code());
                   });
}

void tunnel::fail(direction& d) {
    reset();
    end(d);
}

void tunnel::end(direction& d) {
    d.awaits = need::nothing;
    d.unsent.reset();
    if (!up_.has_ended() || !down_.has_ended()) {
        look_soon();
        return;
    }
    asio::get_associated_cancellation_slot(done_).clear();
    asio::post(d.to.get_executor(), asio::append(std::move(done_), down_.sent));
    work_ = {};
}

// ---- The end of both directions

net::clock::time_point tunnel::look(net::clock::time_point now) {
    bool const is_limited = up_.is_limited() || down_.is_limited();
    if (moved_ || is_limited) {
        moved_ = false;
        last_ = now;
    }
    if (!limits_.leaves)
        end_.reset();
    else if (!end_)
        end_ = now + limits_.drain;
    auto const due = std::min(last_ + limits_.idle, end_.value_or(net::clock::time_point::max()));
    if (now >= due) {
        close(now);
        return net::clock::time_point::max();
    }
    // A direction that is held, or has ended, reads nothing, so a reset must be looked for.
    auto next = due;
    for (auto const* const d : {&up_, &down_}) {
        if (!d->is_held() && !d->has_ended())
            continue;
        next = std::min(next, d->is_held() ? now : now + look_at_ended);
        if (d->from.is_reset())
            reset();
    }
    return next;
}

void tunnel::note_move() {
    moved_ = true;
    look_soon();
}

void tunnel::stop() noexcept {
    stopped_ = true;
    for (auto* const d : {&up_, &down_})
        if (d->by)
            d->by->stop();
}

// A side whose connection is closed takes this for the end of what the other side sends.
void tunnel::close(net::clock::time_point now) {
    bool const is_quiet =
        !moved_ &&
        now - last_ >= std::min<net::clock::duration>(limits_.idle, pause_between_messages);
    if (!is_quiet || up_.has_more() || down_.has_more())
        return reset();
    stop();
    up_.from.close();
    up_.to.close();
}

void tunnel::reset() noexcept {
    stop();
    up_.from.reset();
    up_.to.reset();
}

}  // namespace proxy
