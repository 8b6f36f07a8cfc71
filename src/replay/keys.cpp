#include "keys.hpp"

#include "http/path.hpp"
#include "limiting/request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace replay {
namespace {

using kind = logs::key_source::kind;

std::string to_string(key_part const& part) {
    if (part.source.what == kind::client)
        return "client";
    if (part.segment)
        return *part.segment == 0 ? "path" : fmt::format("path {}", *part.segment);
    return part.source.name.starts_with("header ") ? part.source.name : "field " + part.source.name;
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
      single_(key_.parts.size() == 1 && !key_.parts.front().segment && !key_.is_priority),
      clients_(key_.v4_prefix, key_.v6_prefix) {
    for (auto const& part : key_.parts)
        slots_.push_back(place_of(part.source, sources));
}

std::uint32_t key_numbers::of_parts(logs::entry const& e) {
    if (key_.is_priority)
        return static_cast<std::uint32_t>(limiting::priority_of(e.keys[slots_.front()]));
    text_.clear();
    for (std::size_t i = 0; i != slots_.size(); ++i) {
        auto const& part = key_.parts[i];
        auto const found = e.keys[slots_[i]];
        if (i != 0)
            text_ += ", ";
        if (part.source.what == kind::client)
            text_ += clients_.all()[clients_.number_of(found)];
        else if (!part.segment)
            text_ += found;
        else if (auto const path = path_of(found); *part.segment == 0)
            text_ += path;
        else
            text_ += http::segment_of(path, *part.segment);
    }
    return names_.number_of(text_);
}

}  // namespace replay
