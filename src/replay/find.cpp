#include "find.hpp"

#include "tool/text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace replay {
namespace {

constexpr std::size_t at_once = 16;  // numbers tried in one replay

}  // namespace

unknown unknown::parse(std::string_view text) {
    constexpr std::string_view word = "patience";
    unknown u;
    if (text == word)
        return u;
    if (text.starts_with(word) && text[word.size()] == ' ') {
        if (!tool::time_of(text.substr(word.size() + 1)))
            throw tool::usage_error(
                fmt::format("`{}` is not a patience such as `patience 500ms`", text));
        return u;
    }
    if (auto const colon = text.find(": "); colon != text.npos) {
        u.before_ = text.substr(0, colon + 2);
        text.remove_prefix(colon + 2);
    }
    auto const bytes = byte_rule::parse(text);
    if (!bytes)
        static_cast<void>(rule::parse(text));
    auto const end = text.find_first_not_of("0123456789");
    if (text.find('&') != text.npos || end == 0 || end == text.npos)
        throw tool::usage_error(fmt::format("`{}` must start with the number to search for", text));
    u.behind_ = text.substr(end);
    u.kind_ = bytes ? kind::bytes : kind::requests;
    u.max_ = 1'000'000'000;
    if (bytes) {
        auto const unit = byte_rule::parse("1" + u.behind_)->rate.per_second;
        u.max_ = config::byte_rate::most / unit;
    }
    return u;
}

plan unknown::with(plan p, std::int64_t n) const {
    p.name = text(n);
    p.change("--find", text(n));
    return p;
}

std::string unknown::text(std::int64_t n) const {
    return !is_patience() ? fmt::format("{}{}{}", before_, n, behind_)
                          : fmt::format("patience {}ms", n);
}

std::int64_t unknown::min() const noexcept {
    return is_patience() ? 0 : 1;
}

std::int64_t unknown::max() const noexcept {
    return max_;
}

double unknown::share_of(outcome const& o) const noexcept {
    if (!is_of_bytes())
        return o.rejected_share();
    auto const slowed = static_cast<double>(o.slowed.count());
    return o.asked() == 0 ? 0 : slowed / static_cast<double>(o.asked());
}

found_number find(plan const& p, unknown const& what, double most_share,
                  std::function<std::vector<outcome>(std::vector<plan> const&)> const& replay) {
    auto const are_enough = [&](std::vector<std::int64_t> const& numbers) {
        std::vector<plan> plans;
        for (auto const n : numbers)
            plans.push_back(what.with(p, n));
        return replay(plans);
    };
    auto const is_enough = [&](outcome const& o) { return what.share_of(o) <= most_share; };

    // `low` is too small or below the valid range. Once `found` is true, `high` is sufficient.
    auto low = what.min() - 1;
    auto high = what.min();
    auto most = what.max();
    for (bool found = false; !found;) {
        std::vector<std::int64_t> numbers;
        for (auto n = high; numbers.size() + 1 != at_once && n < most;
             n = std::max<std::int64_t>(1, 2 * n))
            numbers.push_back(n);
        if (numbers.size() + 1 != at_once)
            numbers.push_back(most);
        auto const tried = are_enough(numbers);
        // A number that grants all requests immediately is sufficient if any number is.
        if (!what.is_patience() && !what.is_of_bytes())
            most =
                std::clamp<std::int64_t>(static_cast<std::int64_t>(tried.front().asked()), 1, most);
        for (std::size_t i = 0; i != tried.size() && !found; ++i) {
            high = numbers[i];
            found = is_enough(tried[i]);
            if (!found)
                low = high;
        }
        if (!found && low >= most)
            return {{}, {tried.back()}};
        if (!found)
            high = std::min(2 * low, most);
    }
    while (high - low > 1) {
        std::vector<std::int64_t> numbers;
        auto const parts = std::min<std::int64_t>(at_once + 1, high - low);
        for (std::int64_t i = 1; i != parts; ++i)
            numbers.push_back(low + (high - low) * i / parts);
        auto const tried = are_enough(numbers);
        auto const enough = std::ranges::find_if(tried, is_enough) - tried.begin();
        if (enough != std::ssize(tried))
            high = numbers[static_cast<std::size_t>(enough)];
        if (enough != 0)
            low = numbers[static_cast<std::size_t>(enough - 1)];
    }

    std::vector<std::int64_t> around;
    for (auto const n : {high - 1, high, high + 1})
        if (n >= what.min() && n <= what.max())
            around.push_back(n);
    return {high, are_enough(around)};
}

}  // namespace replay
