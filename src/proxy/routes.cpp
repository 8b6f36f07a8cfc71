#include "routes.hpp"

#include "client.hpp"
#include "http/characters.hpp"
#include "http/path.hpp"
#include "http/values.hpp"
#include "limiting/request.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace proxy {

std::string route_name(config::route const& r) {
    return fmt::format("{}{}{}{}{}", r.check ? "check " : "", fmt::join(r.methods, ","),
                       r.methods.empty() ? "" : " ", r.host, r.path);
}

namespace {

// The value of a forwarded field; empty without one.
std::string_view value_of(http::request_head const& request, std::string_view name) noexcept {
    auto const is_it = [&](http::field const& f) {
        return f.goes_on && http::iequals(f.name, name);
    };
    auto const found = std::ranges::find_if(request.fields, is_it);
    return found == request.fields.end() ? std::string_view() : found->value;
}

}  // namespace

routes::routes(std::vector<route> all)
    : all_(std::move(all)),
      needs_path_(
          std::ranges::any_of(all_, [](route const& r) { return r.configuration.path != "/"; })),
      needs_client_(std::ranges::any_of(all_, [](route const& r) { return !r.clients.empty(); })) {
    for (auto const& r : all_)
        for (auto const& h : r.configuration.headers)
            if (std::ranges::find(headers_, h.name) == headers_.end())
                headers_.push_back(h.name);
}

http::fault routes::check(http::request_head const& request) const noexcept {
    for (auto const& name : headers_)
        if (http::count_lines(request, name) > 1)
            return {400, "more than one line of a header that selects a route"};
    return {};
}

route const* routes::find(http::request_head const& request, config::clients_options const& c,
                          boost::asio::ip::address const& peer, bool is_check) const {
    auto const path = needs_path_ ? http::normal_path(request.target) : std::string();
    std::array<std::uint8_t, 16> client{};
    if (needs_client_)
        client = bytes_of(client_of(c, request, peer));
    for (auto const& one : all_)
        if (one.configuration.check == is_check &&
            limiting::fits(one.configuration, request.host, path, request.method_name) &&
            (one.clients.empty() || one.clients.find(client)) &&
            limiting::has_headers(one.configuration, [&](std::string_view name) {
                return value_of(request, name);
            }))
            return &one;
    return nullptr;
}

}  // namespace proxy
