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

// A request that waits, and the client that waits for it. It belongs to the limiter's handler: when
// the client has gone first, the result comes to nobody, and the permit in it comes home.
struct turn {
    asio::cancellation_signal cancel;
    net::connection* client = nullptr;  // while its socket is being watched
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
        if (turn_->client)
            turn_->client->cancel();
    }

private:
    std::shared_ptr<turn> turn_;
    net::executor ex_;
};

// Waits until the limiter has decided, or the client has hung up; then this is null.
template <class Limiter>
net::task<std::shared_ptr<turn>> wait_turn(Limiter& limiter, net::connection& client,
                                           weir::duration patience) {
    auto mine = std::make_shared<turn>();
    limiter.async_enter(patience, on_turn(mine, co_await asio::this_coro::executor));

    // Something to read is the end, or the next request of a client that does not wait for answers;
    // behind that only an error can be seen.
    auto sign = net::tcp_socket::wait_read;
    while (!mine->came) {
        mine->client = &client;
        co_await client.wait(sign);
        mine->client = nullptr;
        if (!mine->came && (sign == net::tcp_socket::wait_error || client.gone())) {
            mine->cancel.emit(asio::cancellation_type::terminal);
            co_return nullptr;
        }
        sign = net::tcp_socket::wait_error;
    }
    co_return mine;
}

// Rounded up, so that nobody comes back too early; 1 where nobody can tell.
std::chrono::seconds to_retry_after(weir::permit const& refusal) {
    using std::chrono::seconds;
    auto const wait = refusal.retry_after().value_or(seconds(1));
    return std::max(seconds(1), std::chrono::ceil<seconds>(wait));
}

void report_one(std::string& out, std::string_view name, weir::limiter_stats const& s) {
    fmt::format_to(std::back_inserter(out),
                   "weir-proxy: {}: {} granted ({} at once), refused: {} queue full, {} timed out, "
                   "{} too late, {} hung up; now {} in use, {} waiting\n",
                   name, s.granted, s.granted_at_once, s.queue_full, s.timed_out,
                   s.deadline_unreachable, s.cancelled, s.in_use, s.waiting);
}

}  // namespace

gate::gate(net::executor const& ex, options const& o) : patience_(o.patience) {
    weir::queue_options const queue{.limit = o.queue};
    if (o.seats)
        seats_.emplace(ex, weir::seats_options{.seats = *o.seats}, queue);
    if (o.rate)
        rate_.emplace(ex, *o.rate, queue);
}

net::task<entry> gate::enter(net::connection& client) {
    entry result;
    auto patience = patience_;

    if (seats_ && !(result.seat = seats_->try_enter())) {
        auto const waited = co_await wait_turn(*seats_, client, patience);
        result.client_gone = !waited;
        if (!waited)
            co_return result;
        if (waited->ec) {
            result.status = 503;
            result.why = "all seats are taken, and so is the queue";
            if (waited->ec == weir::errc::timed_out)
                result.why = "no seat became free in time";
            result.retry_after = to_retry_after(waited->permit);
            co_return result;
        }
        result.seat = std::move(waited->permit);
        patience = std::max(patience - result.seat.waited(), weir::duration::zero());
    }

    if (rate_ && !(result.token = rate_->try_enter())) {
        auto const waited = co_await wait_turn(*rate_, client, patience);
        result.client_gone = !waited;
        if (!waited || waited->ec)
            result.seat.leave();
        if (waited && waited->ec) {
            result.status = 429;
            result.why = "too many requests";
            result.retry_after = to_retry_after(waited->permit);
        } else if (waited) {
            result.token = std::move(waited->permit);
        }
    }
    co_return result;
}

std::string gate::report() const {
    std::string out;
    if (seats_)
        report_one(out, "seats", seats_->stats());
    if (rate_)
        report_one(out, "rate", rate_->stats());
    return out;
}

}  // namespace proxy
