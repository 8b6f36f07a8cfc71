#include "keys.hpp"

#include "http/path.hpp"
#include "http/values.hpp"
#include "limiting/request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace replay {
namespace {

using kind = logs::key_source::kind;

std::string source_text(key_part const& part) {
    if (part.source.what == kind::client)
        return "client";
    if (!part.parameter.empty())
        return "query " + part.parameter;
    if (part.segment)
        return *part.segment == 0 ? "path" : fmt::format("path {}", *part.segment);
    for (auto const* const of_request : {"header ", "cookie ", "claim ", "client_certificate"})
        if (part.source.name.starts_with(of_request))
            return part.source.name;
    return "field " + part.source.name;
}

std::string to_string(key_part const& part) {
    auto text = source_text(part);
    for (auto const& other : part.otherwise)
        text += " or " + source_text(other);
    return text;
}

// Whether a line of a log has no value here. Servers write `-` for it.
bool is_missing(std::string_view text) noexcept {
    return text.empty() || text == "-";
}

// Writes the length of the part of a key that ends `text` into the bytes before it, from `at` on.
void set_length(std::string& text, std::size_t at) {
    auto const length = text.size() - at - sizeof(std::size_t);
    std::memcpy(text.data() + at, &length, sizeof length);
}

// The position of the host in `http://host/path`, or `npos`.
std::size_t authority_of(std::string_view target) noexcept {
    auto const scheme = target.find("://");
    return target.starts_with('/') || scheme == target.npos ? target.npos : scheme + 3;
}

}  // namespace

std::string to_string(key const& k) {
    std::string text;
    for (auto const& part : k.parts)
        text += (text.empty() ? "" : ", ") + to_string(part);
    return text;
}

std::string path_of(std::string_view target) {
    if (auto const host = authority_of(target); host != target.npos) {
        auto const slash = target.find('/', host);
        target = slash == target.npos ? std::string_view("/") : target.substr(slash);
    }
    return http::normal_path(target);
}

std::string_view host_of(std::string_view target) noexcept {
    auto const host = authority_of(target);
    return host == target.npos ? std::string_view()
                               : target.substr(host, target.find('/', host) - host);
}

std::size_t place_of(logs::key_source const& wanted, std::vector<logs::key_source>& sources) {
    auto const found = std::ranges::find(sources, wanted);
    auto const place = static_cast<std::size_t>(found - sources.begin());
    if (found == sources.end())
        sources.push_back(wanted);
    return place;
}

key_numbers::key_numbers(key k, std::vector<logs::key_source>& sources)
    : key_(std::move(k)),
      by_network_(key_.parts == std::vector{key_part{}}),
      single_(key_.parts.size() == 1 && !key_.parts.front().segment &&
              key_.parts.front().parameter.empty() && key_.parts.front().otherwise.empty() &&
              !key_.is_priority),
      clients_(key_.v4_prefix, key_.v6_prefix) {
    for (auto const& part : key_.parts) {
        slots_.push_back(place_of(part.source, sources));
        for (auto const& other : part.otherwise)
            slots_.push_back(place_of(other.source, sources));
    }
}

std::optional<tool::network> key_numbers::client_of(std::uint32_t number) const {
    constexpr std::string_view word = "client ";
    std::string_view text = all()[number];
    if (by_network_)
        return tool::network_of(text);
    bool const replaces = key_.parts.size() == 1 && ends_in_client(key_.parts.front());
    return replaces && text.starts_with(word) ? tool::network_of(text.substr(word.size()))
                                              : std::nullopt;
}

// The values of the parts of a key.
std::vector<std::string_view> key_numbers::values_of(std::uint32_t number) const {
    std::string_view rest = all()[number];
    if (key_.parts.size() == 1)
        return {rest};
    std::vector<std::string_view> values;
    while (!rest.empty()) {
        std::size_t length = 0;
        std::memcpy(&length, rest.data(), sizeof length);
        values.push_back(rest.substr(sizeof length, length));
        rest.remove_prefix(sizeof length + length);
    }
    return values;
}

std::string key_numbers::text_of(std::uint32_t number) const {
    std::string text;
    for (auto const value : values_of(number))
        text += fmt::format("{}{}", text.empty() ? "" : ", ", value.empty() ? "-" : value);
    return text;
}

limiting::path_names key_numbers::names_of(std::uint32_t number) const {
    limiting::path_names names;
    auto part = key_.parts.begin();
    for (auto name : values_of(number)) {
        if (part++->source.what == kind::client) {
            if (tool::network_of(name).has_value())
                name = name.substr(0, name.find('/'));
        } else if (single_ && is_missing(name)) {
            name = {};
        }
        names.add(name);
    }
    return names;
}

// Appends nothing if the line has no value.
void key_numbers::append(key_part const& part, std::string_view found) {
    if (part.source.what == kind::field && is_missing(found))
        return;
    if (part.source.what == kind::client)
        text_ += clients_.all()[clients_.number_of(found)];
    else if (!part.parameter.empty())
        text_ += http::parameter_of(found, part.parameter).value;
    else if (!part.segment)
        text_ += found;
    else if (auto const path = path_of(found); *part.segment == 0)
        text_ += path;
    else
        text_ += http::segment_of(path, *part.segment);
}

std::uint32_t key_numbers::of_parts(logs::entry const& e) {
    if (key_.is_priority)
        return static_cast<std::uint32_t>(limiting::priority_of(e.keys[slots_.front()]));
    text_.clear();
    std::size_t slot = 0;
    for (auto const& part : key_.parts) {
        auto const start = text_.size();
        if (key_.parts.size() > 1)
            text_.resize(start + sizeof(std::size_t));
        if (ends_in_client(part))
            text_ += "value ";
        auto const begun = text_.size();
        append(part, e.keys[slots_[slot++]]);
        for (auto const& other : part.otherwise) {
            auto const value = e.keys[slots_[slot++]];
            if (text_.size() != begun)
                continue;
            if (other.source.what == kind::client)
                text_.replace(begun - std::string_view("value ").size(), std::string::npos,
                              text_of_client(value));
            else
                append(other, value);
        }
        if (key_.parts.size() > 1)
            set_length(text_, start);
    }
    return names_.number_of(text_);
}

}  // namespace replay
