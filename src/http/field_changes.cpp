#include "field_changes.hpp"

#include "characters.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace http {
namespace {

constexpr std::pair<std::string_view, variable> variable_names[] = {
    {"client", variable::client},
    {"client_certificate", variable::client_certificate},
    {"host", variable::host},
    {"id", variable::id},
    {"route", variable::route}};

variable variable_of(std::string_view name) {
    for (auto const& [known, v] : variable_names)
        if (name == known)
            return v;
    throw std::invalid_argument(
        "unknown variable `{" + std::string(name) +
        "}`; use {client}, {client_certificate}, {host}, {id} or {route}, or `{{` "
        "for a brace");
}

// CGI and WSGI make one variable of `X-User` and `X_User`.
bool are_one_to_many_upstreams(std::string_view a, std::string_view b) {
    auto const fold = [](char c) { return c == '_' ? '-' : to_lower(c); };
    return a.size() == b.size() && std::ranges::equal(a, b, {}, fold, fold);
}

}  // namespace

std::vector<value_part> value_of(std::string_view text) {
    std::vector<value_part> all(1);
    while (!text.empty()) {
        auto const brace = std::min(text.find_first_of("{}"), text.size());
        all.back().text.append(text.substr(0, brace));
        text.remove_prefix(brace);
        if (text.empty())
            break;
        if (text.starts_with("{{") || text.starts_with("}}")) {
            all.back().text += text.front();
            text.remove_prefix(2);
            continue;
        }
        auto const end = text.find('}');
        if (end == 0 || end == text.npos)
            throw std::invalid_argument(end == 0 ? "`}` without `{`; use `}}` for a brace"
                                                 : "`{` without `}`; use `{{` for a brace");
        all.back().behind = variable_of(text.substr(1, end - 1));
        text.remove_prefix(end + 1);
        all.emplace_back();
    }
    if (all.back().text.empty() && all.size() > 1)
        all.pop_back();
    return all;
}

bool field_changes::has_variables() const noexcept {
    return std::ranges::any_of(add, [](added_field const& f) {
        return std::ranges::any_of(f.value, [](value_part const& p) { return bool(p.behind); });
    });
}

bool changes_of_message::keep(std::string_view name) const noexcept {
    auto const same = [&](std::string_view other) { return iequals(name, other); };
    auto const may_be_taken_for = [&](std::string_view other) {
        return are_one_to_many_upstreams(name, other);
    };
    return !all_ || (std::ranges::none_of(all_->remove, same) &&
                     std::ranges::none_of(all_->add, may_be_taken_for, &added_field::name));
}

void changes_of_message::write_to(std::string& out) const {
    if (!all_)
        return;
    for (auto const& [name, value] : all_->add) {
        out.append(name).append(": ");
        for (auto const& part : value) {
            out.append(part.text);
            if (part.behind)
                out.append((*values_)[*part.behind]);
        }
        out.append("\r\n");
    }
}

}  // namespace http
