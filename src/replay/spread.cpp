#include "spread.hpp"

#include "tool/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace replay {
namespace {

using namespace std::chrono_literals;

// Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
std::uint64_t mixed(std::uint64_t seed, std::uint64_t n) noexcept {
    auto z = seed * 0x9e3779b97f4a7c15 + (n + 1) * 0xd1342543de82ef95;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

// A number from 0 (included) to 1 (excluded).
double chance(std::uint64_t bits) noexcept {
    return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace

std::optional<spread> spread::parse(std::string_view text) {
    constexpr std::string_view random = "random";
    if (text == "even")
        return spread{kind::even};
    if (text == "burst")
        return spread{kind::burst};
    if (text == random)
        return spread{kind::at_random};
    if (text.starts_with(random) && text[random.size()] == ' ')
        if (auto const seed = tool::number_of(text.substr(random.size() + 1)))
            return spread{kind::at_random, static_cast<std::uint64_t>(*seed)};
    return {};
}

void spread::offsets(std::int64_t second, std::size_t count, std::vector<nanoseconds>& out) const {
    out.assign(count, 0ns);
    if (how == kind::even) {
        for (std::size_t i = 0; i != count; ++i)
            out[i] =
                nanoseconds(1s) * static_cast<std::int64_t>(i) / static_cast<std::int64_t>(count);
    } else if (how == kind::at_random) {
        auto const of_second = mixed(seed, static_cast<std::uint64_t>(second));
        for (std::size_t i = 0; i != count; ++i)
            out[i] = nanoseconds(static_cast<std::int64_t>(1e9 * chance(mixed(of_second, i))));
        std::ranges::sort(out);
    }
}

std::string to_string(spread const& s) {
    switch (s.how) {
        case spread::kind::even:
            return "even";
        case spread::kind::burst:
            return "burst";
        case spread::kind::at_random:
            break;
    }
    return fmt::format("random {}", s.seed);
}

std::optional<service_time> service_time::parse(std::string_view text) {
    constexpr std::string_view word = "exponential ";
    if (auto const fixed = tool::time_of(text))
        return service_time{kind::fixed, *fixed};
    if (text.starts_with(word)) {
        if (auto const mean = tool::time_of(text.substr(word.size())))
            return service_time{kind::exponential, *mean};
        return {};
    }
    auto const dots = text.find("..");
    if (dots == text.npos)
        return {};
    auto const least = tool::time_of(text.substr(0, dots));
    auto const most = tool::time_of(text.substr(dots + 2));
    if (!least || !most || *least > *most)
        return {};
    return service_time{kind::uniform, *least, *most};
}

nanoseconds service_time::of(std::uint64_t number) const noexcept {
    if (how == kind::fixed)
        return min;
    auto const u = chance(mixed(seed, number));
    if (how == kind::uniform)
        return min +
               nanoseconds(static_cast<std::int64_t>(u * static_cast<double>((max - min).count())));
    return nanoseconds(
        static_cast<std::int64_t>(-std::log1p(-u) * static_cast<double>(min.count())));
}

std::string to_string(service_time const& t) {
    using tool::to_text;
    switch (t.how) {
        case service_time::kind::fixed:
            break;
        case service_time::kind::exponential:
            return "exponential " + to_text(t.min);
        case service_time::kind::uniform:
            return fmt::format("{}..{}", to_text(t.min), to_text(t.max));
    }
    return to_text(t.min);
}

}  // namespace replay
