#pragma once

#include <weir/amount.hpp>
#include <weir/error.hpp>
#include <weir/limiter_name.hpp>
#include <weir/observer.hpp>
#include <weir/permit.hpp>
#include <weir/policy/limiter_config.hpp>
#include <weir/policy/policy.hpp>
#include <weir/queue_options.hpp>
#include <weir/rate.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>

#include <fmt/format.h>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

/// Formats the values of weir with {fmt}. No other header includes this one.
///
///     fmt::print("{}\n", workers.stats());       // 12 granted, 12 immediately; 0 rejected; 0 waiting; ...
///     fmt::print("{}\n", weir::rate(100, 1s));   // 100/1s
///
/// Options are written in the form in which they are parsed, with exact times. Everything else is for people, with
/// times as in `readable`. Width, fill and alignment work as for a string: `{:>20}`.
namespace weir::inline v0_2 {

template <std::size_t N>
class chain_permit;

/// Returns a duration as a short text: "1.5s", "12.346ms", "250ns", "forever". The unit is the largest, up to seconds,
/// that is not longer than `d`, with at most three decimals, rounded up.
[[nodiscard]] inline std::string readable(duration d) {
    using rep = duration::rep;
    if (d < duration::zero())
        return '-' + readable(d == duration::min() ? forever : -d);
    if (d == forever)
        return "forever";
    if (d < std::chrono::microseconds(1))
        return d.count() == 0 ? "0s" : fmt::format("{}ns", d.count());
    auto const thousandths = [d](rep unit) {
        auto const part = unit / 1000;
        return d.count() / part + (d.count() % part != 0 ? 1 : 0);
    };
    auto text = [](rep n, char const* unit) {
        return fmt::format("{}{}", static_cast<double>(n) / 1000, unit);
    };
    if (auto const n = thousandths(1'000); n < 1'000'000)
        return text(n, "us");
    if (auto const n = thousandths(1'000'000); n < 1'000'000)
        return text(n, "ms");
    return text(thousandths(1'000'000'000), "s");
}

namespace detail {

// Rounded up.
[[nodiscard]] constexpr duration in_two_digits(duration d) noexcept {
    duration::rep unit = 1;
    while (d.count() / unit >= 100)
        unit *= 10;
    return duration((d.count() / unit + (d.count() % unit != 0 ? 1 : 0)) * unit);
}

[[nodiscard]] inline std::string count_text(amount n) {
    return fmt::format("{} {}", n, n == 1 ? "permit" : "permits");
}

// Puts the name of a limiter, if it has one, before a text about it.
[[nodiscard]] inline std::string named(limiter_name const& name, std::string const& text) {
    return name.empty() ? text : std::string(name.view()) + ": " + text;
}

[[nodiscard]] inline std::string text_of(errc e) {
    return make_error_code(e).message();
}
[[nodiscard]] inline std::string text_of(rejection const& r) {
    auto text = r.reason();
    if (auto const wait = r.retry_after())
        text += "; retry in " + readable(*wait);
    return text;
}
[[nodiscard]] inline std::string text_of(checkout_rejection const& r) {
    return r.what();
}
[[nodiscard]] inline std::string text_of(permit const& p) {
    if (p)
        return count_text(p.count()) +
               (p.waited() > duration::zero() ? " after " + readable(p.waited()) : "");
    auto text = named(p.limiter(), "no permit");
    if (auto const wait = p.retry_after())
        text += "; retry in " + readable(*wait);
    return text;
}
// Appends the limiter of a chain that rejected, as an index from 0 in the order of the chain, and the time until a
// retry.
template <class Rejected>
[[nodiscard]] std::string rejected_text(std::string text, Rejected const& rejected) {
    if (auto const by = rejected.rejected_by())
        text += fmt::format(", rejected by limiter {}", *by);
    if (auto const wait = rejected.retry_after())
        text += "; retry in " + readable(*wait);
    return text;
}
[[nodiscard]] inline std::string text_of(chain_rejection const& r) {
    return rejected_text(r.reason(), r);
}
template <std::size_t N>
[[nodiscard]] std::string text_of(chain_permit<N> const& p) {
    if (!p)
        return rejected_text(named(p.limiter(), "no permits"), p);
    auto text = fmt::format("{}", p[0].count());
    for (std::size_t i = 1; i != p.size(); ++i)
        text += fmt::format(" + {}", p[i].count());
    text += text == "1" ? " permit" : " permits";
    return p.waited() > duration::zero() ? text + " after " + readable(p.waited()) : text;
}
[[nodiscard]] inline std::string text_of(request r) {
    return count_text(r.count());
}
[[nodiscard]] inline std::string text_of(overdue const& o) {
    return fmt::format("permit {} holds {} for {}", o.id, o.count, readable(o.held));
}
[[nodiscard]] inline std::string text_of(request_event const& e) {
    auto const waited = e.waited ? " after " + readable(*e.waited) : "";
    if (!e.error)
        return named(e.limiter, count_text(e.granted) + waited);
    auto text = count_text(e.asked.count()) + " rejected" + waited + ": " + e.error.message();
    if (e.retry_after)
        text += "; retry in " + readable(*e.retry_after);
    return named(e.limiter, text);
}
[[nodiscard]] inline std::string text_of(rate const& r) {
    return to_string(r);
}
[[nodiscard]] inline std::string text_of(patience p) {
    return p.is_set() ? readable(p.length_or(forever)) : "the queue's patience";
}

[[nodiscard]] inline std::string text_of(limiter_config const& config) {
    return to_string(config);
}
[[nodiscard]] inline std::string text_of(queue_options const& options) {
    auto text = to_string(options);
    return text.empty() ? fmt::format("max_waiting {}", options.max_waiting) : text;
}

[[nodiscard]] constexpr std::string_view text_of(queue_order o) noexcept {
    switch (o) {
        case queue_order::fifo:
            return "fifo";
        case queue_order::lifo:
            return "lifo";
        case queue_order::adaptive_lifo:
            return "adaptive_lifo";
        case queue_order::codel:
            return "codel";
        case queue_order::priority:
            return "priority";
        case queue_order::fair:
            return "fair";
        case queue_order::shares:
            return "shares";
    }
    return "an unknown order";
}
[[nodiscard]] constexpr std::string_view text_of(when_full f) noexcept {
    return f == when_full::reject_newest ? "reject_newest" : "evict_oldest";
}
[[nodiscard]] constexpr std::string_view text_of(refill r) noexcept {
    return r == refill::continuous ? "continuous" : "interval";
}
[[nodiscard]] constexpr std::string_view text_of(window_alignment a) noexcept {
    return a == window_alignment::first_use ? "first_use" : "epoch";
}
[[nodiscard]] constexpr std::string_view text_of(carry_over c) noexcept {
    return c == carry_over::as_is          ? "as_is"
           : c == carry_over::proportional ? "proportional"
                                           : "reset";
}

// Waiting requests, with the wait time of the first one if it is known.
[[nodiscard]] inline std::string waiting_text(std::uint64_t waiting, amount waiting_for,
                                              std::optional<duration> oldest) {
    if (waiting == 0)
        return "0 waiting";
    auto text = fmt::format("{} waiting for {}", waiting, count_text(waiting_for));
    return oldest ? text + ", oldest for " + readable(*oldest) : text;
}

[[nodiscard]] inline std::string pause_text(duration rest) {
    return rest == duration::zero() ? "" : ", paused for " + readable(rest);
}

// The statistics of one limiter, or of all keys together, without the fields that only a single key has.
[[nodiscard]] inline std::string text_of(limiter_stats const& s, bool all_keys) {
    std::string text;
    auto const add = [&text]<class... Args>(fmt::format_string<Args...> what, Args&&... args) {
        fmt::format_to(std::back_inserter(text), what, std::forward<Args>(args)...);
    };
    add("{} granted, {} immediately", s.granted, s.granted_immediately);
    if (s.waited_max > duration::zero())
        add(", the rest within {}", readable(s.waited_max));

    add("; {} rejected",
        s.no_permit + s.timed_out + s.deadline_unreachable + s.queue_full + s.shed +
            s.exceeds_capacity + s.closed + s.too_many_keys + s.unavailable + s.cancelled);
    char const* comma = ": ";
    auto const add_reason = [&](std::uint64_t n, char const* reason) {
        if (n == 0)
            return;
        add("{}{} {}", comma, n, reason);
        comma = ", ";
    };
    add_reason(s.no_permit, "no permit");
    add_reason(s.timed_out, "timed out");
    add_reason(s.deadline_unreachable, "deadline unreachable");
    add_reason(s.queue_full, "queue full");
    add_reason(s.shed, "shed");
    add_reason(s.exceeds_capacity, "over capacity");
    add_reason(s.closed, "closed");
    add_reason(s.too_many_keys, "too many keys");
    add_reason(s.unavailable, "unavailable");
    add_reason(s.cancelled, "cancelled");
    if (s.would_reject + s.would_wait != 0)
        add("; {} would be rejected, {} would wait", s.would_reject, s.would_wait);

    add("; {}", waiting_text(s.waiting, s.waiting_for,
                             all_keys ? std::nullopt : std::optional(s.oldest_wait)));
    add("; {} in use", count_text(s.in_use));
    if (!all_keys)
        add(", {} remaining", s.remaining);
    if (s.debt != 0)
        add(", debt {}", s.debt);
    text += pause_text(s.paused_for);
    if (s.overdue != 0)
        add("; {} overdue", s.overdue);
    return text;
}

[[nodiscard]] inline std::string text_of(limiter_stats const& s) {
    return named(s.name, text_of(s, false));
}
[[nodiscard]] inline std::string text_of(key_stats const& s) {
    auto text =
        fmt::format("{}; {} of {} remaining", waiting_text(s.waiting, s.waiting_for, s.oldest_wait),
                    s.remaining, count_text(s.capacity));
    if (s.debt != 0)
        text += fmt::format(", debt {}", s.debt);
    return text + pause_text(s.paused_for);
}
[[nodiscard]] inline std::string text_of(keyed_stats const& s) {
    auto text = fmt::format("{}; {} {} in {} bytes", text_of(s.total, true), s.keys,
                            s.keys == 1 ? "key" : "keys", s.bytes);
    if (s.evicted != 0)
        text += fmt::format(", {} evicted", s.evicted);
    return named(s.total.name, text);
}

template <class Key>
[[nodiscard]] std::string text_of(heavy_key<Key> const& h) {
    if (h.error == 0)
        return fmt::format("{}: {} requests, {} rejected", h.key, h.requests, h.rejected);
    return fmt::format("{}: {} to {} requests, {} to {} rejected", h.key, h.requests - h.error,
                       h.requests, h.rejected, h.rejected + h.error);
}

[[nodiscard]] inline std::string text_of(share_stats const& s) {
    auto text = fmt::format("{}: {} in use of a share of {}, {} waiting", s.partition.name(),
                            s.in_use, s.share, s.waiting);
    return s.waiting == 0 ? text : text + " for " + count_text(s.waiting_for);
}

[[nodiscard]] inline std::string text_of(pool_stats const& s) {
    auto const text = fmt::format(
        "{} created, {} failed; {} discarded, {} unhealthy, {} retired; {} idle, {} in use, "
        "{} being checked, {} being created; {}",
        s.created, s.failed, s.discarded, s.unhealthy, s.retired, s.idle, s.in_use, s.being_checked,
        s.being_created, text_of(s.requests, false));
    return named(s.requests.name, text);
}

[[nodiscard]] inline std::string text_of(wait_histogram const& waits) {
    if (waits.count() == 0)
        return "0 waited";
    auto const within = [&](double q) { return readable(in_two_digits(waits.quantile(q))); };
    return fmt::format("{} waited: half within {}, 90 % within {}, 99 % within {}, all within {}",
                       waits.count(), within(0.5), within(0.9), within(0.99), within(1));
}
template <class Stats>
[[nodiscard]] std::string text_of(snapshot<Stats> const& s) {
    return fmt::format("{}; {}", text_of(s.stats), text_of(s.waits));
}

template <class T, class Variant>
inline constexpr bool is_alternative = false;
template <class T, class... Alternatives>
inline constexpr bool is_alternative<T, std::variant<Alternatives...>> =
    (std::same_as<T, Alternatives> || ...);

/// The options of a limiter whose kind is selected at run time.
template <class T>
concept limiter_options = is_alternative<T, limiter_config::options_type>;

template <class T>
concept has_text =
    limiter_options<T> ||
    is_alternative<
        T,
        std::variant<errc, permit, request, overdue, rate, patience, limiter_config, queue_options,
                     queue_order, when_full, refill, window_alignment, carry_over, limiter_stats,
                     key_stats, keyed_stats, pool_stats, share_stats, wait_histogram, request_event,
                     snapshot<limiter_stats>, snapshot<keyed_stats>, snapshot<pool_stats>>>;

template <class T>
struct formatter : fmt::formatter<fmt::string_view> {
    template <class Context>
    auto format(T const& value, Context& context) const {
        auto const text = [&] {
            if constexpr (limiter_options<T>)
                return text_of(limiter_config(value));
            else
                return text_of(value);
        }();
        return fmt::formatter<fmt::string_view>::format(fmt::string_view(text), context);
    }
};

}  // namespace detail
}  // namespace weir::inline v0_2

template <weir::detail::has_text T>
struct fmt::formatter<T> : weir::detail::formatter<T> {};

/// Formats a `heavy_key` if {fmt} can format its key.
template <class Key>
    requires fmt::is_formattable<Key>::value
struct fmt::formatter<weir::heavy_key<Key>> : weir::detail::formatter<weir::heavy_key<Key>> {};

template <std::size_t N>
struct fmt::formatter<weir::chain_permit<N>> : weir::detail::formatter<weir::chain_permit<N>> {};

// Separate, because {fmt} has a formatter for all exceptions.
template <>
struct fmt::formatter<weir::rejection> : weir::detail::formatter<weir::rejection> {};
template <>
struct fmt::formatter<weir::checkout_rejection>
    : weir::detail::formatter<weir::checkout_rejection> {};
template <>
struct fmt::formatter<weir::chain_rejection> : weir::detail::formatter<weir::chain_rejection> {};
