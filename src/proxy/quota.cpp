#include "quota.hpp"

#include <weir/rate.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <utility>
#include <variant>

namespace proxy {
namespace {

using std::chrono::seconds;

// An integer of structured fields has at most 15 digits.
constexpr weir::amount largest = 999'999'999'999'999;

std::int64_t whole_seconds(weir::duration d) {
    return std::chrono::ceil<seconds>(d).count();
}

quota per_window(weir::amount n, weir::duration window) {
    return {.most = std::min(n, largest), .seconds = whole_seconds(window)};
}

// What comes back at `r`, of which up to `saved` can be had at once.
quota of_rate(weir::rate const& r, weir::amount saved) {
    if (r.permits() == 0)
        return {.most = std::min(saved, largest)};
    if (saved <= r.permits())
        return per_window(r.permits(), r.period());
    auto const long_enough =
        static_cast<long double>(saved) * static_cast<long double>(r.period().count()) /
        static_cast<long double>(r.permits());
    bool const endless = long_enough >= static_cast<long double>(weir::forever.count());
    return per_window(
        saved,
        endless ? weir::forever : weir::duration(static_cast<weir::duration::rep>(long_enough)));
}

quota of(weir::seats_options const& o) {
    return {.most = std::min(o.seats, largest), .at_a_time = true};
}
quota of(weir::adaptive_options const& o) {
    return {.most = std::visit([](auto const& a) { return a.most; }, o), .at_a_time = true};
}
quota of(weir::sliding_log_options const& o) {
    return per_window(o.limit, o.window);
}
quota of(weir::sliding_window_options const& o) {
    return per_window(o.limit, o.window);
}
quota of(weir::fixed_window_options const& o) {
    return per_window(o.limit, o.window);
}
quota of(weir::token_bucket_options const& o) {
    return of_rate(o.rate, o.burst.value_or(std::max<weir::amount>(o.rate.permits(), 1)));
}
quota of(weir::leaky_bucket_options const& o) {
    return of_rate(o.rate, o.capacity);
}
quota of(weir::smooth_bursty_options const& o) {
    auto const saved =
        static_cast<long double>(o.rate.permits()) * static_cast<long double>(o.max_burst.count()) /
        static_cast<long double>(o.rate.period().count());
    return of_rate(o.rate, saved >= largest ? largest : static_cast<weir::amount>(saved));
}
quota of(weir::smooth_warming_up_options const& o) {
    return of_rate(o.rate, 0);
}

}  // namespace

std::vector<quota> quotas_of(weir::limiter_config const& rule) {
    std::vector<quota> found;
    std::visit(
        [&]<class Options>(Options const& o) {
            if constexpr (std::is_same_v<Options, weir::all_options>) {
                for (auto const& part : o.parts)
                    std::ranges::copy(quotas_of(part), std::back_inserter(found));
            } else {
                found.push_back(of(o));
            }
        },
        rule.options);
    return found;
}

std::string quoted(std::string_view name) {
    std::string out = "\"";
    for (char const c : name) {
        if (c < 0x20 || c > 0x7e || c == '%')
            fmt::format_to(std::back_inserter(out), "%{:02x}", static_cast<unsigned char>(c));
        else if (c == '"' || c == '\\')
            out.append(1, '\\').append(1, c);
        else
            out += c;
    }
    return out + '"';
}

policy_text::policy_text(std::string_view n, std::vector<quota> const& quotas)
    : name(quoted(n)), most(std::ranges::min(quotas, {}, &quota::most).most) {
    for (auto const& q : quotas) {
        auto& item = items.emplace_back(fmt::format("{};q={}", name, q.most));
        if (q.at_a_time)
            item += ";qu=\"concurrent-requests\"";
        if (q.seconds > 0)
            item += fmt::format(";w={}", q.seconds);
        has_window = has_window || q.seconds > 0;
    }
}

told_rule::told_rule(std::string name, weir::limiter_config const& rule) : name_(std::move(name)) {
    change(rule);
}

void told_rule::change(weir::limiter_config const& rule) {
    auto quotas = quotas_of(rule);
    std::lock_guard const lock(changes_);
    auto known = std::ranges::find(versions_, quotas, &version::quotas);
    if (known == versions_.end()) {
        policy_text text(name_, quotas);
        known = versions_.insert(known, {std::move(quotas), std::move(text)});
    }
    text_.store(&known->text);
}

}  // namespace proxy
