#include <weir/rate_limit_fields.hpp>

#include "fields/item_list.hpp"
#include "fields/scanner.hpp"
#include "fields/times.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::inline v0_2 {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds longest = std::chrono::hours(366 * 24);
constexpr std::size_t most_quotas = 16;

std::string_view trimmed(std::string_view text) noexcept {
    constexpr std::string_view blanks = " \t";
    auto const first = text.find_first_not_of(blanks);
    if (first == std::string_view::npos)
        return {};
    return text.substr(first, text.find_last_not_of(blanks) + 1 - first);
}

char lower(char c) noexcept {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool are_same(std::string_view a, std::string_view b) noexcept {
    return std::ranges::equal(a, b, {}, lower, lower);
}
bool begins_with(std::string_view text, std::string_view prefix) noexcept {
    return text.size() >= prefix.size() && are_same(text.substr(0, prefix.size()), prefix);
}
bool ends_with(std::string_view text, std::string_view suffix) noexcept {
    return text.size() >= suffix.size() &&
           are_same(text.substr(text.size() - suffix.size()), suffix);
}

// The fields of a response by name.
class response {
public:
    response(std::span<http_field const> fields, std::chrono::system_clock::time_point now)
        : fields_(fields) {
        auto const local = std::chrono::floor<milliseconds>(now);
        auto const date = find("date");
        now_ = (date ? detail::read_http_date(*date, local) : std::nullopt).value_or(local);
    }

    [[nodiscard]] std::span<http_field const> fields() const noexcept { return fields_; }

    // Returns the value of the field `name`; nothing if there is none, or if there are two different ones. `name` is
    // given in parts.
    template <class... Parts>
    [[nodiscard]] std::optional<std::string_view> find(Parts const&... parts) const {
        std::string name;
        (name.append(parts), ...);
        std::optional<std::string_view> found;
        for (auto const& f : fields_) {
            if (!are_same(f.name, name))
                continue;
            if (found && *found != trimmed(f.value))
                return std::nullopt;
            found = trimmed(f.value);
        }
        return found;
    }

    // Returns all values of a field that is a list.
    [[nodiscard]] std::string list(std::string_view name) const {
        std::string all;
        for (auto const& f : fields_)
            if (are_same(f.name, name))
                all.append(all.empty() ? "" : ", ").append(trimmed(f.value));
        return all;
    }

    // Returns the time until `end`, 0 if that is in the past; nothing if it is too long.
    [[nodiscard]] std::optional<duration> until(std::optional<detail::wall_time> end) const {
        return end ? checked(*end - now_) : std::nullopt;
    }
    [[nodiscard]] static std::optional<duration> checked(std::optional<milliseconds> length) {
        if (!length || *length > longest)
            return std::nullopt;
        return std::max(*length, milliseconds::zero());
    }

    [[nodiscard]] std::optional<duration> retry_after() const {
        auto const value = find("retry-after");
        if (!value)
            return std::nullopt;
        if (auto const seconds = whole(*value))
            return checked(std::chrono::seconds(*seconds));
        return until(detail::read_http_date(*value, now_));
    }

    // Reads the end of a quota in any of the forms in use.
    [[nodiscard]] std::optional<duration> reset(std::string_view value) const {
        constexpr milliseconds first_epoch = std::chrono::seconds(1'000'000'000);
        if (auto const number = detail::read_seconds(value)) {
            if (*number < first_epoch)
                return checked(number);
            bool const in_milliseconds = *number >= first_epoch * 1'000;
            return until(detail::wall_time(in_milliseconds ? ceil_to_ms(*number) : *number));
        }
        if (auto const length = detail::read_go_duration(value))
            return checked(length);
        auto const date = detail::read_http_date(value, now_);
        return until(date ? date : detail::read_iso_time(value));
    }

    // Reads a number of up to 15 digits.
    [[nodiscard]] static std::optional<std::int64_t> whole(std::string_view value) noexcept {
        detail::scanner in(value);
        auto const number = in.number(1, 15);
        return in.is_at_end() ? number : std::nullopt;
    }

private:
    // Converts a number of milliseconds that was read as seconds.
    static milliseconds ceil_to_ms(milliseconds read) noexcept {
        return (read + milliseconds(999)) / 1'000;
    }

    std::span<http_field const> fields_;
    detail::wall_time now_;
};

// Reads a number of permits, also with zeros behind a point.
std::optional<amount> read_remaining(std::string_view value) noexcept {
    detail::scanner in(value);
    auto const number = in.number(1, 15);
    if (in.accept('.'))
        in.run_of("0");
    return in.is_at_end() ? number : std::nullopt;
}

// Reads the size of a quota, which a list of policies may follow.
std::optional<amount> read_limit(std::optional<std::string_view> value) noexcept {
    detail::scanner in(value.value_or(""));
    auto const number = in.number(1, 15);
    return in.is_at_end() || in.peek() == ',' || in.peek() == ';' ? number : std::nullopt;
}

std::vector<stated_quota> read_lists(response const& from) {
    std::vector<stated_quota> found;
    auto const policies = detail::read_item_list(from.list("ratelimit-policy"));
    for (auto& item : detail::read_item_list(from.list("ratelimit"))) {
        if (!item.r || found.size() == most_quotas)
            continue;
        auto const policy = std::ranges::find(policies, item.name, &detail::quota_item::name);
        auto const reset = item.t ? response::checked(std::chrono::seconds(*item.t)) : std::nullopt;
        auto const limit = policy != policies.end() ? policy->q : std::nullopt;
        found.push_back({std::move(item.name), *item.r, reset, limit});
    }
    return found;
}

// How a server names the fields of a quota: `prefix`, what the field states, and `suffix`. The name of the quota is a
// part of the prefix or of the suffix.
struct naming {
    std::string prefix;
    std::string suffix;
};

std::optional<stated_quota> read_quota(response const& from, naming const& in, std::string name) {
    auto const field = [&](std::string_view part) { return from.find(in.prefix, part, in.suffix); };
    auto const value = field("remaining");
    auto const remaining = value ? read_remaining(*value) : std::nullopt;
    if (!remaining)
        return std::nullopt;
    auto const after = field("reset-after");
    auto reset = response::checked(after ? detail::read_seconds(*after) : std::nullopt);
    if (auto const end = field("reset"); end && !reset)
        reset = from.reset(*end);
    return stated_quota{std::move(name), *remaining, reset, read_limit(field("limit"))};
}

// The quotas with names. The name follows the word `remaining`, or precedes it.
std::vector<stated_quota> read_named(response const& from, std::string_view prefix,
                                     bool name_is_last) {
    auto const start = std::string(prefix) + (name_is_last ? "remaining-" : "");
    std::string_view const end = name_is_last ? "" : "-remaining";
    std::vector<stated_quota> found;
    std::vector<std::string> names;
    for (auto const& f : from.fields()) {
        if (!begins_with(f.name, start) || !ends_with(f.name, end) ||
            f.name.size() <= start.size() + end.size() || names.size() == most_quotas)
            continue;
        std::string name(f.name.substr(start.size(), f.name.size() - start.size() - end.size()));
        std::ranges::transform(name, name.begin(), lower);
        if (std::ranges::find(names, name) != names.end())
            continue;
        names.push_back(name);
        auto const in = name_is_last ? naming{std::string(prefix), "-" + name}
                                     : naming{std::string(prefix) + name + "-", ""};
        if (auto quota = read_quota(from, in, std::move(name)))
            found.push_back(*std::move(quota));
    }
    return found;
}

std::vector<stated_quota> read_quotas(response const& from) {
    auto found = read_lists(from);
    for (std::string_view const prefix : {"ratelimit-", "x-ratelimit-", "x-rate-limit-"}) {
        if (!found.empty())
            break;
        found = read_named(from, prefix, true);
        if (auto unnamed = read_quota(from, {std::string(prefix), ""}, ""))
            found.insert(found.begin(), *std::move(unnamed));
    }
    return found.empty() ? read_named(from, "anthropic-ratelimit-", false) : found;
}

bool may_say_when_to_retry(int status) noexcept {
    return (status >= 300 && status < 400) || status == 413 || status == 429 || status == 503;
}

}  // namespace

stated_quota const* rate_limit_fields::find(std::string_view name) const noexcept {
    for (auto const& q : quotas)
        if (name.empty() || q.name == name)
            return &q;
    return nullptr;
}

rate_limit_fields read_rate_limit_fields(int status, std::span<http_field const> fields,
                                         std::chrono::system_clock::time_point now) {
    response const from(fields, now);
    return {may_say_when_to_retry(status) ? from.retry_after() : std::nullopt, read_quotas(from)};
}

}  // namespace weir::inline v0_2
