#include "bandwidth.hpp"

#include <weir/error.hpp>
#include <weir/queue_options.hpp>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

namespace proxy {
namespace {

constexpr weir::amount least_at_once = 1'460;  // a segment of TCP
constexpr weir::amount most_at_once = 65'536;
constexpr weir::amount turns_per_second = 50;

// Each waiting transfer is a waiting request, and the connections bound their number.
config::limit limiter_of(config::limit c, config::byte_rate const& r) {
    c.rule = config::rule_of(r);
    c.queue = {.max_waiting = weir::unlimited, .patience = weir::forever};
    return c;
}

}  // namespace

byte_limit::byte_limit(net::executor const& ex, config::limit const& c, config::byte_rate const& r)
    : rate_(r),
      limiter_(make_limit(ex, limiter_of(c, r), nullptr)),
      per_turn_(r.per_second / turns_per_second),
      burst_(r.burst) {}

bool byte_limit::can_become(config::limit const& c) const {
    return limiting::can_become(limiter_->configuration(), limiter_of(c, rate_));
}

void byte_limit::configure(config::limit const& c, config::byte_rate const& r) {
    limiter_->configure(limiter_of(c, r));
    rate_ = r;
    per_turn_.store(r.per_second / turns_per_second, std::memory_order_relaxed);
    burst_.store(r.burst, std::memory_order_relaxed);
}

weir::amount byte_limit::quantum(std::uint64_t key) const noexcept {
    auto const transfers =
        std::max<weir::amount>(wanting_[index_of(key)].load(std::memory_order_relaxed), 1);
    auto const fair = per_turn_.load(std::memory_order_relaxed) / transfers;
    return std::min(std::clamp(fair, least_at_once, most_at_once),
                    burst_.load(std::memory_order_relaxed));
}

void byte_limits::add(std::shared_ptr<byte_limit> l) {
    auto const is_total = [](one const& o) { return !o.limit->limiter()->is_keyed(); };
    auto const at = l->limiter()->is_keyed() ? std::ranges::find_if(all_, is_total) : all_.end();
    auto selection = l->selection();
    all_.insert(at, {std::move(l), std::move(selection)});
}

std::unique_ptr<transfer> transfer::start(byte_limits const& by, request_info const& who,
                                          std::unique_ptr<byte_limit> own) {
    return by.empty() && !own ? nullptr : std::make_unique<transfer>(by, who, std::move(own));
}

// Its own limit comes first, for the same reason as limits by key.
transfer::transfer(byte_limits const& by, request_info const& who, std::unique_ptr<byte_limit> own)
    : who_(who), own_(std::move(own)) {
    if (own_)
        shares_.push_back({own_.get(), own_->selection()->of(who_)});
    for (auto const& one : by.all_)
        shares_.push_back({one.limit.get(), one.selection->of(who_)});
}

transfer::~transfer() {
    settle(0);
}

net::task<std::size_t> transfer::take(std::size_t most) {
    stopped_ = false;
    if (most == 0)
        co_return 0;
    for (auto const& s : shares_)
        s.of->want(s.at.key);
    wants_ = true;
    auto n = static_cast<weir::amount>(
        std::min<std::size_t>(most, std::numeric_limits<std::int32_t>::max()));
    for (auto const& s : shares_)
        n = std::min(n, s.of->quantum(s.at.key));
    for (auto& s : shares_) {
        if (!co_await take_of(s, n)) {
            settle(0);
            co_return 0;
        }
    }
    co_return static_cast<std::size_t>(n);
}

// Takes `n` permits, or fewer if the burst became lower meanwhile. Returns false if the transfer was stopped.
net::task<bool> transfer::take_of(share& s, weir::amount& n) {
    for (;;) {
        s.at.cost = n;
        net::error_code ec;
        s.permit = s.of->limiter()->enter_at_once(who_, s.at, ec);
        if (!s.permit && !ec) {
            co_await wait(s);
            ec = turn_->ec;
            s.permit = std::move(turn_->permit);
        }
        if (stopped_)
            co_return false;
        // A limit that was closed limits nothing.
        if (s.permit || ec != weir::errc::exceeds_capacity || n == 1)
            co_return true;
        n = std::min(n / 2, s.of->quantum(s.at.key));
    }
}

net::task<> transfer::wait(share const& s) {
    auto const ex = co_await boost::asio::this_coro::executor;
    if (!turn_)
        turn_ = std::make_shared<turn<weir::permit>>(ex);
    turn_->came = false;
    waits_ = true;
    s.of->limiter()->async_enter(who_, s.at, weir::forever, on_turn<weir::permit>(turn_, ex));
    while (!turn_->came) {
        turn_->pause.expires_after(std::chrono::hours(1));  // the decision ends it
        co_await turn_->pause.async_wait(net::as_values);
    }
    waits_ = false;
}

void transfer::settle(std::size_t n) noexcept {
    auto const bytes = static_cast<weir::amount>(n);
    for (auto& s : shares_) {
        if (bytes < s.permit.count())
            s.permit.split(s.permit.count() - bytes).refund();
        s.permit.leave();
        if (n > 0)
            s.of->pass(n);
        if (wants_)
            s.of->want_no_more(s.at.key);
    }
    wants_ = false;
}

void transfer::stop() noexcept {
    stopped_ = true;
    if (waits_)
        turn_->cancel.emit(boost::asio::cancellation_type::terminal);
}

}  // namespace proxy
