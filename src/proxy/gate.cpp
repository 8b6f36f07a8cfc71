#include "gate.hpp"

#include <weir/adaptive_seats.hpp>
#include <weir/any_limiter.hpp>
#include <weir/error.hpp>
#include <weir/keyed.hpp>
#include <weir/seats.hpp>
#include <weir/token_bucket.hpp>

#include "tool/log_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <ranges>
#include <utility>
#include <variant>

namespace proxy {
namespace {

constexpr rule_text client_seats_text{
    .name = "per-client seats",
    .status = 429,
    .limited = "too many requests at a time",
    .late = "too many requests at a time",
    .queue_full = "too many requests at a time",
    .counts_repeats = false,
};
constexpr rule_text client_rate_text{
    .name = "per-client rate",
    .status = 429,
    .limited = "too many requests of this client",
    .late = "too many requests of this client",
    .queue_full = "too many requests of this client",
    .counts_repeats = true,
};
constexpr rule_text seats_text{
    .name = "seats",
    .status = 503,
    .limited = "all seats are taken",
    .late = "no seat became free in time",
    .queue_full = "all seats are taken, and so is the queue",
    .counts_repeats = false,
};
constexpr rule_text rate_text{
    .name = "rate",
    .status = 429,
    .limited = "too many requests",
    .late = "too many requests",
    .queue_full = "too many requests",
    .counts_repeats = true,
};

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
    e.give_back();
}

char const* why(rule_text const& text, net::error_code ec) {
    if (ec == weir::errc::queue_full)
        return text.queue_full;
    if (ec == weir::errc::unavailable)
        return "what keeps the rate does not answer";
    bool const late = ec == weir::errc::timed_out || ec == weir::errc::deadline_unreachable;
    return late ? text.late : text.limited;
}

void report_one(std::string& out, rule const& r, bool waits, bool shows_number) {
    auto const s = r.stats();
    // Who waits has been refused at once before.
    auto const too_late = waits ? s.deadline_unreachable : s.limited;

    fmt::format_to(std::back_inserter(out),
                   "weir-proxy: {}: {} granted ({} at once), refused: {} queue full, {} timed out, "
                   "{} too late, {} hung up; now {} in use, {} waiting",
                   r.text.name, s.granted, s.granted_at_once, s.queue_full, s.timed_out, too_late,
                   s.cancelled, s.in_use, s.waiting);
    if (shows_number)
        fmt::format_to(std::back_inserter(out), ", {} seats", s.capacity);
    if (auto const clients = r.clients())
        fmt::format_to(std::back_inserter(out), ", {} clients", *clients);
    out += r.more();
    out += '\n';
}

}  // namespace

std::string told_of(weir::shared_stats const& s) {
    return fmt::format(
        "; engine: {} questions, {} failed, {} without an answer, {} granted without it",
        s.questions, s.failed, s.unknown, s.granted_without);
}

void tell_of(weir::mode_change const& change, net::error_code why) {
    auto const what = [&]() -> std::string {
        switch (change.after) {
            case weir::shared_mode::engine:
                return "the engine answers again";
            case weir::shared_mode::refusing:
                return fmt::format("the engine cannot be asked ({}): requests are answered 503",
                                   why.message());
            case weir::shared_mode::open:
                return fmt::format("the engine cannot be asked ({}): there is no limit",
                                   why.message());
            case weir::shared_mode::local:
                return fmt::format("the engine cannot be asked ({}): this proxy keeps its share",
                                   why.message());
        }
        return {};
    };
    tool::complain(fmt::format("weir-proxy: rate: {}\n", what()));
}

weir::duration entry::waited() const noexcept {
    weir::duration sum{};
    for (auto const& permit : permits)
        sum += permit.waited();
    return sum;
}

void entry::give_back() noexcept {
    for (auto& permit : permits | std::views::reverse)
        permit.refund();
}

template <class Rule, class... Arguments>
void gate::add(Arguments const&... arguments) {
    rules_.push_back(std::make_unique<Rule>(arguments...));
}

gate::gate(net::executor const& ex, options const& o, std::shared_ptr<weir::engine> const& e)
    : patience_(o.patience) {
    using client_seats = client_rule<weir::policy::seats>;
    using client_rate = client_rule<weir::policy::any>;
    using client_bucket = client_rule<weir::policy::token_bucket>;
    using seats = shared_rule<weir::basic_seats<net::executor>>;
    using adaptive_seats = shared_rule<weir::basic_adaptive_seats<net::executor>>;
    using rate = shared_rule<weir::basic_any_limiter<net::executor>>;

    weir::queue_options const queue{.limit = o.queue};
    weir::keyed_options const keys{.max_keys = static_cast<std::uint64_t>(o.max_clients),
                                   .no_place = weir::when_no_place::share};
    if (auto const n = o.per_client_seats)
        add<client_seats>(client_seats_text, ex, weir::seats_options{*n}, keys, queue);
    if (auto const& r = o.per_client_rate) {
        // The kind that is meant for many clients takes a sixth of the memory by itself.
        if (auto const* const bucket = std::get_if<weir::token_bucket_options>(&r->options))
            add<client_bucket>(client_rate_text, ex, *bucket, keys, queue);
        else
            add<client_rate>(client_rate_text, ex, *r, keys, queue);
    }
    if (auto const& adaptive = o.adaptive_seats) {
        adaptive_ = rules_.size();
        add<adaptive_seats>(seats_text, ex, *adaptive, queue);
    } else if (auto const n = o.seats) {
        add<seats>(seats_text, ex, weir::seats_options{*n}, queue);
    }
    if (e && o.shared.log)
        add<engine_rule<weir::policy::fed_log>>(rate_text, ex, e, o, queue);
    else if (e)
        add<engine_rule<weir::policy::fed>>(rate_text, ex, e, o, queue);
    else if (auto const& r = o.rate)
        add<rate>(rate_text, ex, *r, queue);
}

bool gate::enter_at_once(entry& e) {
    for (auto const& rule : rules_) {
        auto& permit = e.permits[e.passed];
        permit = rule->try_enter(e.who);
        if (!permit) {
            bool const waits = patience_ > weir::duration::zero();
            if (!waits)
                turn_away(e, rule->text.status, rule->text.limited, permit);
            return !waits;
        }
        ++e.passed;
    }
    return true;
}

net::task<> gate::enter_in_turn(entry& e, net::connection& client) {
    for (auto patience = patience_; e.passed < rules_.size(); ++e.passed) {
        auto& rule = *rules_[e.passed];
        auto decided = co_await rule.enter(e.who, client, patience);
        e.client = decided.client;
        if (decided.client != net::presence::here) {
            turn_away(e, 503, "the client has ended the connection", {});
            co_return;
        }
        if (decided.ec) {
            bool const nobody_knows = decided.ec == weir::errc::unavailable;
            turn_away(e, nobody_knows ? 503 : rule.text.status, why(rule.text, decided.ec),
                      decided.permit);
            co_return;
        }
        patience = std::max(patience - decided.permit.waited(), weir::duration::zero());
        e.permits[e.passed] = std::move(decided.permit);
    }
}

net::task<bool> gate::enter_again(entry& e, net::connection& client) {
    entry again(e.who);
    for (std::size_t i = 0; i < rules_.size(); ++i) {
        auto& rule = *rules_[i];
        if (!rule.text.counts_repeats)
            continue;
        auto& permit = again.permits[i] = rule.try_enter(e.who);
        if (auto const trip = rule.round_trip(); !permit && trip > weir::duration::zero())
            permit = (co_await rule.enter(e.who, client, trip)).permit;
        if (!permit) {
            again.give_back();
            co_return false;
        }
    }
    // What was used the first time stays used.
    for (std::size_t i = 0; i < rules_.size(); ++i)
        if (again.permits[i])
            e.permits[i] = std::move(again.permits[i]);
    co_return true;
}

void gate::report(entry& e, weir::outcome how) const noexcept {
    if (!adaptive_)
        return;
    auto& seat = e.permits[*adaptive_];
    seat.report(how);
    seat.leave();
}

std::string gate::report() const {
    std::string out;
    bool const waits = patience_ > weir::duration::zero();
    for (std::size_t i = 0; i != rules_.size(); ++i)
        report_one(out, *rules_[i], waits, adaptive_ == i);
    return out;
}

}  // namespace proxy
