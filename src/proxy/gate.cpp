#include "gate.hpp"

#include <weir/error.hpp>

#include <boost/asio/cancellation_signal.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace proxy {

namespace asio = boost::asio;
namespace {

// A request that waits. It belongs to the limiter's handler: when the client has gone first, the result
// comes to nobody, and the permit in it comes home.
struct turn {
    explicit turn(net::executor const& ex) : pause(ex) {}

    asio::cancellation_signal cancel;
    net::connection* client = nullptr;  // while its socket is being watched
    net::timer pause;                   // between two looks at it
    bool came = false;
    net::error_code ec;
    weir::permit permit;
};

class on_turn {
public:
    on_turn(std::shared_ptr<turn> t, net::executor const& ex) : turn_(std::move(t)), ex_(ex) {}

    // What is refused at once is told at once, on this very thread.
    using executor_type = net::executor;
    net::executor get_executor() const noexcept { return ex_; }
    using immediate_executor_type = net::executor;
    net::executor get_immediate_executor() const noexcept { return ex_; }
    using cancellation_slot_type = asio::cancellation_slot;
    asio::cancellation_slot get_cancellation_slot() const noexcept { return turn_->cancel.slot(); }

    void operator()(net::error_code ec, weir::permit permit) const {
        turn_->ec = ec;
        turn_->permit = std::move(permit);
        turn_->came = true;
        turn_->pause.cancel();
        if (turn_->client)
            turn_->client->cancel();
    }

private:
    std::shared_ptr<turn> turn_;
    net::executor ex_;
};

struct verdict {
    net::presence client = net::presence::here;
    net::error_code ec;
    weir::permit permit;
};

// Waits until the limiter has decided, or the client has hung up.
template <class Limiter>
net::task<verdict> wait_turn(Limiter& limiter, net::connection& client, weir::duration patience) {
    auto const ex = co_await asio::this_coro::executor;
    auto const mine = std::make_shared<turn>(ex);
    limiter.async_enter(patience, on_turn(mine, ex));

    bool has_sent = false;
    while (!mine->came) {
        if (!has_sent) {
            mine->client = &client;
            co_await client.wait(net::tcp_socket::wait_read);
            mine->client = nullptr;
        } else {
            // The next request of a client that does not wait for answers. Behind that an end is only
            // seen by looking for it.
            mine->pause.expires_after(net::watchdog::round);
            co_await mine->pause.async_wait(net::as_values);
        }
        has_sent = true;
        auto const there = client.other_side();
        if (!mine->came && there != net::presence::here) {
            mine->cancel.emit(asio::cancellation_type::terminal);
            co_return verdict{there, {}, {}};
        }
    }
    co_return verdict{net::presence::here, mine->ec, std::move(mine->permit)};
}

// Rounded up, so that nobody comes back too early; 1 where nobody can tell.
std::chrono::seconds to_retry_after(weir::permit const& refusal) {
    using std::chrono::seconds;
    auto const wait = refusal.retry_after().value_or(seconds(1));
    return std::max(seconds(1), std::chrono::ceil<seconds>(wait));
}

void turn_away(entry& e, unsigned status, char const* why, weir::permit const& refusal) {
    e.status = status;
    e.why = why;
    e.retry_after = to_retry_after(refusal);
    e.seat.leave();
}

void report_one(std::string& out, std::string_view name, weir::limiter_stats const& s, bool waits) {
    // Who waits has been refused at once before.
    auto const too_late = waits ? s.deadline_unreachable : s.limited;

    fmt::format_to(std::back_inserter(out),
                   "weir-proxy: {}: {} granted ({} at once), refused: {} queue full, {} timed out, "
                   "{} too late, {} hung up; now {} in use, {} waiting\n",
                   name, s.granted, s.granted_at_once, s.queue_full, s.timed_out, too_late,
                   s.cancelled, s.in_use, s.waiting);
}

}  // namespace

gate::gate(net::executor const& ex, options const& o) : patience_(o.patience) {
    weir::queue_options const queue{.limit = o.queue};
    if (o.seats)
        seats_.emplace(ex, weir::seats_options{.seats = *o.seats}, queue);
    if (o.rate)
        rate_.emplace(ex, *o.rate, queue);
}

bool gate::enter_at_once(entry& e) {
    bool const waits = patience_ > weir::duration::zero();
    if (seats_ && !(e.seat = seats_->try_enter())) {
        if (!waits)
            turn_away(e, 503, "all seats are taken", e.seat);
        return !waits;
    }
    if (rate_ && !(e.token = rate_->try_enter())) {
        if (!waits)
            turn_away(e, 429, "too many requests", e.token);
        return !waits;
    }
    return true;
}

net::task<> gate::enter_in_turn(entry& e, net::connection& client) {
    auto patience = patience_;
    if (seats_ && !e.seat) {
        auto waited = co_await wait_turn(*seats_, client, patience);
        e.client = waited.client;
        if (waited.client != net::presence::here) {
            turn_away(e, 503, "the client has ended the connection", {});
            co_return;
        }
        if (waited.ec) {
            bool const late = waited.ec == weir::errc::timed_out;
            turn_away(
                e, 503,
                late ? "no seat became free in time" : "all seats are taken, and so is the queue",
                waited.permit);
            co_return;
        }
        e.seat = std::move(waited.permit);
        patience = std::max(patience - e.seat.waited(), weir::duration::zero());
    }
    if (rate_) {
        auto waited = co_await wait_turn(*rate_, client, patience);
        e.client = waited.client;
        if (waited.client != net::presence::here)
            turn_away(e, 503, "the client has ended the connection", {});
        else if (waited.ec)
            turn_away(e, 429, "too many requests", waited.permit);
        else
            e.token = std::move(waited.permit);
    }
}

bool gate::enter_again(entry& e) {
    if (!rate_)
        return true;
    auto token = rate_->try_enter();
    bool const granted = bool(token);
    if (granted)
        e.token = std::move(token);  // the first one stays used
    return granted;
}

std::string gate::report() const {
    std::string out;
    bool const waits = patience_ > weir::duration::zero();
    if (seats_)
        report_one(out, "seats", seats_->stats(), waits);
    if (rate_)
        report_one(out, "rate", rate_->stats(), waits);
    return out;
}

}  // namespace proxy
