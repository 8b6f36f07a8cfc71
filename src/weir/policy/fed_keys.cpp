#include <weir/policy/fed_keys.hpp>

#include "../check_option.hpp"
#include "shared_numbers.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace weir::inline v0_2::policy {
namespace {

shared_bucket bucket_of(fed_keys_options const& o) {
    o.is_log ? validate_log(o.limit) : validate(o.limit);
    detail::check_option("shared_keyed", "prefetch", o.limit.prefetch, 0, 0);
    return o.is_log ? shared_bucket::log_of(o.limit) : shared_bucket::of(o.limit);
}

}  // namespace

fed_keys_rule::fed_keys_rule(options_type const& options)
    : options_(options), bucket_(bucket_of(options)) {
    if (auto const share = local_share_of(options.limit))
        local_.emplace(*share);
}

fed_keys_rule::state_type fed_keys_rule::begin(time_point now) const noexcept {
    state_type s;
    if (local_)
        s.local = local_->begin(now);
    return s;
}

void fed_keys_rule::take_over(state_type& s, fed_keys_rule const& old, state_type const& before,
                              time_point now) const noexcept {
    auto local = s.local;
    if (local_ && old.local_)
        local_->take_over(local, *old.local_, before.local, now);
    s = before;
    s.local = local;
    s.rejected_until = time_point::min();
}

bool fed_keys_rule::are_alike(state_type const& a, state_type const& b,
                              time_point now) const noexcept {
    return !is_used(a, now) && !is_used(b, now) &&
           (!local_ || local_->are_alike(a.local, b.local, now));
}

amount fed_keys_rule::remaining(state_type const& s, time_point now) const noexcept {
    if (contact().decides_itself())
        return local_ ? local_->remaining(s.local, now) : capacity();
    return s.owed == 0 && s.from <= now ? held(s, now) : 0;
}

time_point fed_keys_rule::ready_at(state_type const& s, amount n, amount ahead,
                                   time_point now) const noexcept {
    if (contact().decides_itself()) {
        if (!local_)
            return now;
        return n <= local_->capacity() ? local_->ready_at(s.local, n, ahead, now) : unknown;
    }
    if (s.owed != 0)
        return unknown;
    auto const missing = n + ahead - held(s, now);
    if (missing <= 0)
        return std::max(s.from, now);
    if (contact().is_failing() || now >= s.rejected_until || missing < s.rejected_min)
        return unknown;
    return later(s.rejected_until, of_microseconds(bucket_.time_of(missing - s.rejected_min)));
}

ticket fed_keys_rule::take(state_type& s, amount n, time_point now) const noexcept {
    bool const is_debt = ready_at(s, n, 0, now) > now;
    bool const decides = contact().decides_itself();
    if (local_)
        local_->take(s.local, std::min(n, local_->remaining(s.local, now)), now);
    if (decides && !is_debt) {
        contact().bypassed(n);
        return without_store;
    }
    auto const usable = s.from <= now ? held(s, now) : 0;
    auto const taken = std::min(usable, n);
    s.left -= static_cast<std::uint32_t>(taken);
    if (taken == n)
        return static_cast<ticket>(s.since);
    s.owed = std::min(s.owed + n - taken, max_amount);
    return in_debt;
}

bool fed_keys_rule::refund(state_type& s, amount n, ticket t, time_point now) const noexcept {
    if (t == without_store)
        return local_ && local_->refund(s.local, n, 0, now);
    if (t != in_debt) {
        s.rejected_until = time_point::min();
        return false;
    }
    s.owed -= std::min(s.owed, n);
    return s.owed == 0;
}

ticket fed_keys_rule::merge(state_type&, ticket a, ticket b, amount) const noexcept {
    return merge_tickets(a, b);
}

bool fed_keys_rule::comes_from_store(ticket t) noexcept {
    return t != without_store && t != in_debt;
}

fed_keys_rule::give_back fed_keys_rule::returned(amount n, ticket t) const noexcept {
    return {bucket_, n, static_cast<std::int64_t>(t), shared_options::most_timeout};
}

time_point fed_keys_rule::next_question(state_type const& s, demand const& d,
                                        time_point now) const noexcept {
    if (is_asking(s, now))
        return std::min(s.asked_until, contact().next_change());
    bool const is_probe = contact().decides_itself();
    if (s.owed == 0 && !is_probe && (d.all == 0 || held(s, now) != 0))
        return never;
    if (contact().is_failing())
        return std::max(now, std::min(contact().ask_from(), contact().next_change()));
    if (s.owed == 0 && now < s.rejected_until && d.head >= s.rejected_min)
        return std::max(now, s.rejected_until - options_.limit.reach / 2);
    return now;
}

std::optional<fed_keys_rule::question> fed_keys_rule::ask(state_type& s, demand const& d,
                                                          time_point now) const noexcept {
    using std::chrono::microseconds;
    if (next_question(s, d, now) > now)
        return std::nullopt;
    auto const made = contact().ask(now);
    if (!made)
        return std::nullopt;
    question q{.bucket = bucket_, .number = made->number, .timeout = made->timeout};
    s.pays_debt = s.owed != 0;
    if (s.pays_debt) {
        q.min = q.max = std::min(s.owed, bucket_.burst);
        q.ahead = microseconds(most_level / bucket_.drained);
    } else if (!contact().decides_itself()) {  // otherwise the question is for one permit
        q.max = std::clamp<amount>(d.all, 1, bucket_.burst);
        q.min = std::clamp<amount>(d.head, 1, q.max);
        auto const patience = d.until == never ? forever : d.until - now;
        q.ahead = std::chrono::floor<microseconds>(
            std::clamp(patience, duration::zero(), options_.limit.reach));
    }
    s.asked = q.number;
    s.asked_until = later(now, q.timeout);
    return q;
}

fed_keys_rule::give_back fed_keys_rule::take_spare(state_type& s, demand const& d,
                                                   time_point now) const noexcept {
    bool const is_late = now > s.until;
    bool const is_spare =
        is_late || (s.from <= now && d.head > s.left) || (s.from <= now && d.all == 0);
    if (s.left == 0 || !is_spare)
        return {};
    auto const n = std::exchange(s.left, 0);
    if (is_late)
        contact().lapsed(n);
    return returned(n, static_cast<ticket>(s.since));
}

bool fed_keys_rule::answered(state_type& s, question const& q, answer const& a, time_point sent,
                             time_point now) const noexcept {
    if (s.asked != q.number)
        return false;
    s.asked = 0;
    auto const at = later(sent, of_microseconds(a.wait.count()));
    if (a.granted == 0) {
        s.rejected_min = static_cast<std::uint32_t>(q.min);
        s.rejected_until = at;
        return true;
    }
    if (s.pays_debt) {
        s.owed -= std::min(s.owed, a.granted);
        return true;
    }
    bool const is_booked = a.wait.count() > 0;
    s.left = static_cast<std::uint32_t>(a.granted);
    s.from = is_booked ? later(now, of_microseconds(a.wait.count())) : now;
    s.until = later(at, q.timeout);
    s.since = a.since;
    s.rejected_min = 1;
    s.rejected_until =  // the bucket will be full then
        is_booked ? later(at, of_microseconds(bucket_.time_of(1))) : time_point::min();
    return true;
}

}  // namespace weir::inline v0_2::policy
