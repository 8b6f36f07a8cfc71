#include "names.hpp"

#include <algorithm>

namespace tls {
namespace {

// A locale does not matter: a name of another alphabet is in its ASCII form.
std::string lower(std::string_view name) {
    std::string out(name);
    std::ranges::transform(out, out.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? char(c | 0x20) : c;
    });
    return out;
}

}  // namespace

bool names::is_usable(std::string_view name) {
    if (name.starts_with("*."))
        name.remove_prefix(2);
    return !name.empty() &&
           std::ranges::all_of(name, [](char c) { return c > ' ' && c < 0x7f && c != '*'; });
}

bool names::is_address(std::string_view name) {
    // The last label of a name is not a number.
    auto const last = name.substr(name.rfind('.') + 1);
    return name.find(':') != name.npos ||
           (!last.empty() && last.find_first_not_of("0123456789") == last.npos);
}

std::string names::normal(std::string_view name) {
    return is_address(name) ? std::string() : lower(name);
}

void names::add(std::string_view name, std::size_t certificate) {
    all_.emplace(lower(name), certificate);
}

names::list names::find(std::string_view name) const {
    if (name.starts_with('*'))  // the name of no server
        return {};
    auto const exact = with(name);
    return exact.empty() ? with_wildcard_for(name) : exact;
}

names::list names::find_all(std::string_view name) const {
    if (name.starts_with('*'))
        return {};
    auto found = with(name);
    for (auto const certificate : with_wildcard_for(name))
        found.push_back(certificate);
    return found;
}

names::list names::with(std::string_view name) const {
    auto const [begin, end] = all_.equal_range(lower(name));
    list found;
    for (auto i = begin; i != end; ++i)
        found.push_back(i->second);
    return found;
}

names::list names::with_wildcard_for(std::string_view name) const {
    auto const dot = name.find('.');
    bool const has_label = dot != name.npos && dot != 0;
    return has_label ? with('*' + std::string(name.substr(dot))) : list();
}

}  // namespace tls
