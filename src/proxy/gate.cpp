#include "gate.hpp"

#include <weir/error.hpp>

#include "cost.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace proxy {
namespace {

void turn_away(entry& e, limit const& at, unsigned status, char const* why) {
    e.status = status;
    e.rejected_by = &at;
    e.why = why;
    e.retry_after = e.rejected.ec == weir::errc::exceeds_capacity
                        ? std::chrono::seconds()
                        : limiting::come_back_after(e.rejected.retry_after);
}

char const* why(limit_text const& text, net::error_code ec) {
    if (ec == weir::errc::queue_full)
        return text.queue_full;
    if (is_of_store(ec))
        return "the rate limit store is unavailable";
    if (ec == weir::errc::too_many_keys)
        return "too many different clients";
    if (ec == weir::errc::exceeds_capacity)
        return "the request costs more than its limit can ever grant";
    bool const late = ec == weir::errc::timed_out || ec == weir::errc::deadline_unreachable;
    return late ? text.late : text.limited;
}

// Records the decision of the limits.
void turn_away(entry& e) {
    auto const& at = *e.rejected.by;
    // Not the client, but the proxy or its store is the reason.
    bool const of_proxy = is_of_store(e.rejected.ec) || e.rejected.ec == weir::errc::too_many_keys;
    bool const is_too_much = e.rejected.ec == weir::errc::exceeds_capacity;
    turn_away(e, at,
              of_proxy      ? 503
              : is_too_much ? 429
                            : at.text().status,
              why(at.text(), e.rejected.ec));
}

}  // namespace

full_limiter::full_limiter(net::executor const& ex)
    : limiter(ex, weir::seats_options{.seats = 1}, {.max_waiting = 0}),
      taken(limiter.try_enter()) {}

gate::gate(net::executor const& ex, std::vector<std::shared_ptr<limit>> const& limits,
           costs const& replaced)
    : base(limits, replaced) {
    if (has_seats() && has_rates())
        full_ = std::make_shared<full_limiter const>(ex);
    for (auto const& l : all())
        records_.push_back(l->record());
    if (std::ranges::none_of(records_, [](auto const& r) { return bool(r); }))
        records_.clear();
}

void gate::turn_away_and_punish(entry& e) const {
    turn_away(e);
    punish(e, e.status);
}

net::task<bool> gate::may_enter(entry& e, net::connection& client) const {
    if (!full_)
        co_return true;
    if (!records_.empty())
        e.arrived = net::clock::now();
    select(e);
    auto const ask = [this, &e](on_turn<weir::any_chain_permit> h) {
        ask_rates(e, full_->limiter, std::move(h));
    };
    auto const v = co_await wait_turn<weir::any_chain_permit>(client, ask);
    bool const may = decide_rates(e, v.ec, v.permit);
    if (!may)
        turn_away_and_punish(e);
    co_return may;
}

bool gate::enter_at_once(entry& e) const {
    if (!records_.empty())
        e.arrived = net::clock::now();
    bool const decided = base::enter_at_once(e);
    if (e.rejected.by)
        turn_away_and_punish(e);
    return decided;
}

template <class Permit>
bool gate::is_let_in(entry& e, verdict<Permit>& v, net::clock::time_point since) const {
    e.client = v.client;
    if (!v.permit)
        e.waited += net::clock::now() - since;  // only a permit knows its wait
    if (v.client != net::presence::here) {
        turn_away(e, next(e), 503, "the client closed the connection");
        e.give_back();
        return false;
    }
    bool const in = decide(e, v.ec, v.permit);
    if (!in)
        turn_away_and_punish(e);
    return in;
}

net::task<> gate::enter_in_turn(entry& e, net::connection& client) const {
    pass_unlimited(e);
    for (bool goes_on = true; goes_on && !is_in(e);) {
        auto const since = net::clock::now();
        if (waits_for_chain(e)) {
            auto const enter = [this, &e](on_turn<weir::any_chain_permit> h) {
                wait_for_chain(e, std::move(h));
            };
            auto v = co_await wait_turn<weir::any_chain_permit>(client, enter);
            goes_on = is_let_in(e, v, since);
        } else {
            auto v = co_await next(e).enter(e.who, e.at[e.passed], client, e.patience);
            goes_on = is_let_in(e, v, since);
        }
    }
}

net::task<bool> gate::enter_again(entry& e, net::connection& client) const {
    entry again(e.who);
    net::error_code ignored;
    again.permits.resize(all().size());
    for (std::size_t i = 0; i < all().size(); ++i) {
        auto& one = *all()[i];
        if (one.has_seats() || e.at[i].is_unlimited || is_by_response(i))
            continue;
        auto& permit = again.permits[i] = one.enter_at_once(e.who, e.at[i], ignored);
        if (auto const trip = one.round_trip(); !permit && trip > weir::duration::zero())
            permit = (co_await one.enter(e.who, e.at[i], client, trip)).permit;
        if (!permit && i < strict()) {
            again.give_back();
            co_return false;
        }
    }
    // The permits of the first attempt stay used.
    for (std::size_t i = 0; i < all().size(); ++i)
        if (again.permits[i])
            e.permits[i] = std::move(again.permits[i]);
    co_return true;
}

void gate::hear(entry& e, http::answer_head const& answer) const noexcept {
    e.answered = answer.status;
    base::settle(e, e.answered, [&](config::cost const& c) { return cost_of_response(c, answer); });
}

void gate::answer(entry& e, unsigned status) const noexcept {
    e.answered = status;
}

void gate::settle(entry& e, std::uint64_t sent,
                  std::optional<std::uint64_t> received) const noexcept {
    using kind = config::cost::kind;
    bool const has_answer = e.answered != 0;
    base::settle(e, e.answered, [&](config::cost const& c) -> std::optional<weir::amount> {
        if (c.what == kind::response_bytes && has_answer)
            return amount_of(sent);
        if (c.what == kind::bytes && received)
            return amount_of(*received);
        return std::nullopt;
    });
    if (!records_.empty())
        record(e);
}

void gate::free_seats(entry& e) const noexcept {
    if (!records_.empty())
        e.left = net::clock::now();
    base::free_seats(e);
}

gate::demand gate::demand_for_seats(entry const& e) const {
    demand all;
    for (std::size_t i = 0; i != limits().size(); ++i) {
        auto const& one = *limits()[i];
        if (!one.has_seats() || one.is_keyed() || i >= e.permits.size() || !e.permits[i])
            continue;
        auto const s = one.stats();
        all.waiting += s.waiting;
        all.rejected += s.no_permit + s.timed_out + s.deadline_unreachable + s.queue_full + s.shed;
    }
    return all;
}

// A limit did not decide on a request that another limit rejected. The rule does not apply to a key with an override.
void gate::record(entry const& e) const noexcept {
    using std::chrono::microseconds;
    auto const bounded = [](std::int64_t n) {
        return static_cast<std::uint32_t>(std::clamp<std::int64_t>(n, 0, UINT32_MAX));
    };
    auto const served = e.left.value_or(net::clock::now()) - e.arrived - e.waited;
    auto const held = bounded(std::chrono::duration_cast<microseconds>(served).count());
    for (std::size_t i = 0; i != records_.size(); ++i) {
        auto const& at = e.at[i];
        bool const decided = !e.rejected_by || e.rejected_by == all()[i].get();
        if (!records_[i] || !decided || at.is_unlimited || at.by)
            continue;
        auto const used = i < e.permits.size() ? e.permits[i].count() : 0;
        records_[i]->add({.at = e.arrived,
                          .key = at.key,
                          .permits = bounded(used > 0 ? used : at.cost),
                          .held = held,
                          .status = static_cast<std::uint16_t>(e.answered),
                          .granted = !e.rejected_by});
    }
}

}  // namespace proxy
