#include "accept.hpp"

#include "characters.hpp"

#include <algorithm>
#include <optional>

namespace http {
namespace {

// Removes the text before the next `separator` from `text` and returns it. A separator in quotes does not count.
std::string_view take(std::string_view& text, char separator) noexcept {
    bool quoted = false;
    std::size_t i = 0;
    for (; i < text.size() && (quoted || text[i] != separator); ++i) {
        if (text[i] == '"')
            quoted = !quoted;
        else if (quoted && text[i] == '\\')
            ++i;
    }
    i = std::min(i, text.size());
    auto const part = text.substr(0, i);
    text.remove_prefix(std::min(i + 1, text.size()));
    return trimmed(part);
}

// Parses `1`, `0.5` or `0.125` into thousandths.
std::optional<unsigned> weight_of(std::string_view text) noexcept {
    bool const fits = !text.empty() && text.size() <= 5 && (text[0] == '0' || text[0] == '1') &&
                      (text.size() == 1 || text[1] == '.');
    if (!fits)
        return std::nullopt;
    unsigned weight = text[0] == '1' ? 1000 : 0;
    unsigned unit = 100;
    for (char const c : text.substr(std::min<std::size_t>(text.size(), 2))) {
        if (!is_digit(c))
            return std::nullopt;
        weight += static_cast<unsigned>(c - '0') * unit;
        unit /= 10;
    }
    return weight <= 1000 ? std::optional(weight) : std::nullopt;
}

struct media_range {
    std::string_view name;
    unsigned weight = 1000;
};

std::optional<media_range> range_of(std::string_view text) noexcept {
    media_range found{.name = take(text, ';')};
    auto const slash = found.name.find('/');
    if (slash == found.name.npos || !some(found.name.substr(0, slash), is_token) ||
        !some(found.name.substr(slash + 1), is_token))
        return std::nullopt;
    while (!text.empty()) {
        auto const parameter = take(text, ';');
        if (parameter.size() < 2 || !iequals(parameter.substr(0, 2), "q="))
            continue;
        auto const weight = weight_of(parameter.substr(2));
        if (!weight)
            return std::nullopt;
        found.weight = *weight;
    }
    return found;
}

// How specifically the range names the type: from 0 (not at all) to 3 (exactly).
int fits(std::string_view range, std::string_view type) noexcept {
    if (iequals(range, type))
        return 3;
    if (range == "*/*")
        return 1;
    auto const slash = type.find('/');
    bool const all_of_it = range.ends_with("/*") && range.size() == slash + 2 &&
                           iequals(range.substr(0, slash), type.substr(0, slash));
    return all_of_it ? 2 : 0;
}

template <class F>
void each_range(std::string_view accept, F f) noexcept {
    while (!accept.empty())
        if (auto const range = range_of(take(accept, ',')))
            f(*range);
}

}  // namespace

void read_accept(std::string& out, request_head const& request) {
    out.clear();
    for (auto const& f : request.fields)
        if (f.id == field_name::accept)
            out.append(out.empty() ? "" : ",").append(f.value);
}

unsigned quality_of(std::string_view accept, std::string_view type) noexcept {
    if (accept.empty())
        return 1000;
    int best = 0;
    unsigned weight = 0;
    each_range(accept, [&](media_range const& range) {
        auto const how = fits(range.name, type);
        if (how > best)
            weight = 0;
        if (how > 0 && how >= best) {
            best = how;
            weight = std::max(weight, range.weight);
        }
    });
    return weight;
}

bool names_type(std::string_view accept, std::string_view type) noexcept {
    bool found = false;
    each_range(accept, [&](media_range const& range) { found |= iequals(range.name, type); });
    return found;
}

}  // namespace http
