#include "bandwidth.hpp"

#include <weir/error.hpp>

#include "limiting/portion.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>
#include <utility>

namespace proxy {
namespace {

// The order in which transfers wait depends on no property of their requests, which may have ended.
http::request_head const no_request;
boost::asio::ip::address const no_address;
request_info const anyone{no_request, no_address};

config::byte_rate usual_rate_of(config::limit const& c, config::direction d) {
    return config::rate_of(c, d).value_or(config::byte_rate());
}

}  // namespace

byte_limit::byte_limit(net::executor const& ex, config::limit const& c, config::direction d)
    : direction_(d),
      rate_(config::rate_of(c, d)),
      limiter_(make_limit(ex, config::limiter_of(c, d))),
      per_second_(usual_rate_of(c, d).per_second),
      burst_(usual_rate_of(c, d).burst),
      is_dry_(c.dry_run) {}

bool byte_limit::can_become(config::limit const& c) const {
    return limiting::can_become(limiter_->configuration(), config::limiter_of(c, direction_));
}

void byte_limit::configure(config::limit const& c) {
    limiter_->configure(config::limiter_of(c, direction_));
    rate_ = config::rate_of(c, direction_);
    auto const usual = usual_rate_of(c, direction_);
    per_second_.store(usual.per_second, std::memory_order_relaxed);
    burst_.store(usual.burst, std::memory_order_relaxed);
    is_dry_.store(c.dry_run, std::memory_order_relaxed);
}

std::vector<std::optional<config::byte_rate>> byte_limit::overrides() const {
    auto const& c = limiter_->configuration();
    std::vector<std::optional<config::byte_rate>> all;
    for (std::uint32_t i = 0; i != c.byte_overrides.size(); ++i)
        all.push_back(config::rate_of(c, direction_, i));
    return all;
}

weir::amount byte_limit::portion(std::uint64_t key, config::byte_rate const& r) const noexcept {
    return limiting::portion_of(r, wanting_[index_of(key)].load(std::memory_order_relaxed));
}

// If the memory for a key is lacking, its bytes are late.
void byte_limit::pass_dry(limiting::selected const& at, weir::amount n,
                          config::byte_rate const& r) noexcept {
    try {
        n = limiting::take_or_count(*limiter_, anyone, at, n, r.burst);
    } catch (std::exception const&) {}
    late_.fetch_add(static_cast<std::uint64_t>(n), std::memory_order_relaxed);
}

void byte_limits::add(std::shared_ptr<byte_limit> l) {
    auto selection = l->selection();
    auto overrides = l->overrides();
    all_.push_back({std::move(l), std::move(selection), std::move(overrides)});
}

std::unique_ptr<transfer> transfer::start(limits by, request_info const& who) {
    bool const none =
        by.of_route.empty() && (!by.of_listener || by.of_listener->empty()) && !by.own;
    return none ? nullptr : std::make_unique<transfer>(std::move(by), who);
}

// Its own limit and limits by key come first: it holds their permits while it waits for the others, which more
// transfers share.
transfer::transfer(limits by, request_info const& who) : own_(std::move(by.own)) {
    if (own_)
        shares_.push_back({own_.get(), own_->selection()->of(who)});
    for (bool const keyed : {true, false}) {
        add(by.of_route, who, keyed);
        if (by.of_listener)
            add(*by.of_listener, who, keyed);
    }
}

void transfer::add(byte_limits const& those, request_info const& who, bool keyed) {
    for (auto const& one : those.all_)
        if (one.limit->limiter()->is_keyed() == keyed &&
            std::ranges::find(shares_, one.limit.get(), &share::of) == shares_.end()) {
            auto const at = one.selection->of(who);
            shares_.push_back({one.limit.get(), at, at.by ? one.overrides[*at.by] : std::nullopt});
        }
}

transfer::~transfer() {
    settle(0);
}

net::task<std::size_t> transfer::take(std::size_t most) {
    stopped_ = false;
    if (most == 0)
        co_return 0;
    auto n = want(most);
    for (auto& s : shares_) {
        if (s.delays() && !co_await take_of(s, n)) {
            settle(0);
            co_return 0;
        }
    }
    co_return static_cast<std::size_t>(n);
}

std::size_t transfer::take_at_once(std::size_t most) {
    auto n = want(most);
    for (auto& s : shares_) {
        if (!s.delays())
            continue;
        net::error_code ec;
        do {
            if (!ask(s, n, ec)) {
                settle(0);
                return 0;
            }
        } while (!stands(s, ec, n));
    }
    return static_cast<std::size_t>(n);
}

// Returns the number of the next bytes, of `most`, for which it takes permits.
weir::amount transfer::want(std::size_t most) noexcept {
    for (auto const& s : shares_)
        s.of->want(s.at.key);
    wants_ = true;
    auto n = static_cast<weir::amount>(
        std::min<std::size_t>(most, std::numeric_limits<std::int32_t>::max()));
    for (auto const& s : shares_)
        if (s.delays())
            n = std::min(n, s.portion());
    return n;
}

// Asks for `n` permits. Returns false if the limit cannot decide now.
bool transfer::ask(share& s, weir::amount n, net::error_code& ec) {
    s.at.cost = n;
    s.permit = s.of->limiter()->enter_at_once(anyone, s.at, ec);
    return s.permit || ec;
}

// Whether a decision stands. Otherwise the burst became lower meanwhile, and so does `n`.
bool transfer::stands(share const& s, net::error_code ec, weir::amount& n) {
    // A limit that was closed limits nothing.
    if (s.permit || ec != weir::errc::exceeds_capacity || n == 1)
        return true;
    n = std::min(n / 2, s.portion());
    return false;
}

// Takes `n` permits, or fewer. Returns false if the transfer was stopped.
net::task<bool> transfer::take_of(share& s, weir::amount& n) {
    for (;;) {
        net::error_code ec;
        if (!ask(s, n, ec)) {
            co_await wait(s);
            ec = turn_->ec;
            s.permit = std::move(turn_->permit);
        }
        if (stopped_)
            co_return false;
        if (stands(s, ec, n))
            co_return true;
    }
}

net::task<> transfer::wait(share const& s) {
    auto const ex = co_await boost::asio::this_coro::executor;
    if (!turn_)
        turn_ = std::make_shared<turn<weir::permit>>(ex);
    turn_->came = false;
    waits_ = true;
    auto const began = net::clock::now();
    s.of->limiter()->async_enter(anyone, s.at, weir::forever, on_turn<weir::permit>(turn_, ex));
    while (!turn_->came) {
        turn_->pause.expires_after(std::chrono::hours(1));  // the decision ends it
        co_await turn_->pause.async_wait(net::as_values);
    }
    waits_ = false;
    waited_ += net::clock::now() - began;
}

void transfer::settle(std::size_t n) noexcept {
    auto const bytes = static_cast<weir::amount>(n);
    for (auto& s : shares_) {
        if (bytes < s.permit.count())
            s.permit.split(s.permit.count() - bytes).refund();
        s.permit.leave();
        if (n > 0) {
            s.of->pass(n);
            if (s.of->is_dry() && !s.at.is_unlimited)
                s.of->pass_dry(s.at, bytes, s.rate());
        }
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

std::optional<net::clock::duration> waited_of(transfer const* up, transfer const* down) noexcept {
    if (!up && !down)
        return std::nullopt;
    auto const of = [](transfer const* one) {
        return one ? one->waited() : net::clock::duration::zero();
    };
    return of(up) + of(down);
}

}  // namespace proxy
