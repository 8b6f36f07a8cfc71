#include "bandwidth.hpp"

#include <weir/queue_options.hpp>
#include <weir/time.hpp>

#include "configuration.hpp"
#include "table_reader.hpp"
#include "tool/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace config {
namespace {

struct unit {
    std::string_view name;
    weir::amount bytes;
};
// An amount is written in the first of these in which it is a whole number.
constexpr unit units[] = {
    {"GB", 1'000'000'000}, {"GiB", 1 << 30}, {"MB", 1'000'000}, {"MiB", 1 << 20},
    {"kB", 1'000},         {"KiB", 1 << 10}, {"B", 1}};

std::string text_of(weir::amount bytes) {
    auto const* const fits =
        std::ranges::find_if(units, [&](unit const& u) { return bytes % u.bytes == 0; });
    return fmt::format("{}{}", bytes / fits->bytes, fits->name);
}

// Parses `10MB`.
std::optional<weir::amount> bytes_of(std::string_view text) {
    auto const digits = std::min(text.find_first_not_of("0123456789"), text.size());
    auto const n = tool::number_of(text.substr(0, digits));
    auto const* const found = std::ranges::find(units, text.substr(digits), &unit::name);
    if (!n || found == std::end(units) || *n < 1 || *n > byte_rate::most / found->bytes)
        return std::nullopt;
    return *n * found->bytes;
}

kind<byte_rate> rate_of_bytes() {
    return {"a rate of bytes up to 1000GB/s, such as `1MB/s`, `512KiB/s` or `10MB/s burst 1MB`",
            [](toml::node const& node) -> std::optional<byte_rate> {
                auto const* const text = node.as_string();
                return text ? byte_rate_of(text->get()) : std::nullopt;
            }};
}

}  // namespace

weir::amount usual_burst(weir::amount per_second) noexcept {
    return std::max<weir::amount>(per_second / 20, 16'384);
}

std::string to_string(byte_rate const& r) {
    auto text = text_of(r.per_second) + "/s";
    if (r.burst != usual_burst(r.per_second))
        text += " burst " + text_of(r.burst);
    return text;
}

std::optional<byte_rate> byte_rate_of(std::string_view text) {
    constexpr std::string_view a_second = "/s";
    constexpr std::string_view word = " burst ";
    auto const end = text.find(word);
    auto rate = text.substr(0, end);
    if (!rate.ends_with(a_second))
        return std::nullopt;
    rate.remove_suffix(a_second.size());
    auto const per_second = bytes_of(rate);
    if (!per_second)
        return std::nullopt;
    auto const burst =
        end == text.npos ? usual_burst(*per_second) : bytes_of(text.substr(end + word.size()));
    return burst ? std::optional(byte_rate{*per_second, *burst}) : std::nullopt;
}

weir::limiter_config rule_of(byte_rate const& r) {
    return {weir::token_bucket_options{
        .rate = {r.per_second, std::chrono::seconds(1)}, .burst = r.burst}};
}

bandwidth read_rates(table_reader& t) {
    bandwidth rates;
    t.get("up", rates.up, rate_of_bytes());
    t.get("down", rates.down, rate_of_bytes());
    if (!t.has("up") && !t.has("down"))
        t.problem(t.at(), "missing `up` (bytes from clients) or `down` (bytes to clients)");
    return rates;
}

bool has_rate(limit const& l, direction d) {
    return rate_of(l, d) || std::ranges::any_of(l.byte_overrides, [d](auto const& o) {
               return (o.second.*d).has_value();
           });
}

std::optional<byte_rate> rate_of(limit const& l, direction d, std::optional<std::uint32_t> by) {
    return (by ? l.byte_overrides.at(*by).second : l.bandwidth.value_or(bandwidth())).*d;
}

limit limiter_of(limit const& l, direction d) {
    auto made = l;
    auto const usual = rate_of(l, d);
    made.is_unlimited = !usual;
    made.rule = rule_of(usual.value_or(byte_rate()));
    for (auto const& [key, rates] : l.byte_overrides) {
        auto const& rate = rates.*d;
        made.overrides.emplace_back(key, rate ? override_rule(rule_of(*rate)) : std::nullopt);
    }
    // Each waiting transfer is a waiting request, and the connections bound their number.
    made.queue = {.max_waiting = weir::unlimited, .patience = weir::forever};
    return made;
}

void read_bandwidth(table_reader& t, limit& l) {
    auto& rates = l.bandwidth.emplace();
    t.table("bandwidth", [&](table_reader& of) { rates = read_rates(of); });
    l.rule = rule_of(rates.down.value_or(rates.up.value_or(byte_rate())));
    constexpr std::string_view counts_requests = "a limit counts bytes or requests";
    constexpr std::pair<std::string_view, std::string_view> excluded[] = {
        {"rule", counts_requests},
        {"tree", counts_requests},
        {"engine", counts_requests},
        {"cost", counts_requests},
        {"estimate", counts_requests},
        {"count", counts_requests},
        {"evict_within", "further keys share one bandwidth"},
        {"when_full", "further keys share one bandwidth"},
        {"queue", "bytes wait as long as they must, in the order of their arrival"},
        {"priority", "bytes wait in the order of their arrival"},
        {"weights", "connections share a bandwidth evenly"},
        {"store", "stores cannot count bytes"}};
    for (auto const& [key, why] : excluded)
        if (t.has(key) && t.claim(key))
            t.problem(t.at(key),
                      fmt::format("`bandwidth` and `{}` exclude each other: {}", key, why));
    for (std::string_view const key : {"shared_as", "prefetch", "timeout", "on_failure"})
        if (t.has(key) && t.claim(key))
            t.problem(t.at(key), fmt::format("`{}` requires `store`", key));
}

}  // namespace config
