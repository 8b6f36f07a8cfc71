#include "check.hpp"

#include "http/characters.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace proxy {
namespace {

constexpr http::fault no_method{400, "the check does not describe the method of a request"};
constexpr http::fault no_target{400, "the check does not describe the target of a request"};
constexpr http::fault twice{400, "the check describes a part of the request more than once"};

enum part : std::uint8_t { method, target, host };

// The parts of a request that the fields of a check describe; empty without a field.
struct description {
    std::array<std::string_view, 3> parts;
    bool is_twice = false;
};

struct described_part {
    http::field_name name;
    part what;
};
using described_parts = std::span<described_part const>;

constexpr described_part x_forwarded[] = {{http::field_name::x_forwarded_method, method},
                                          {http::field_name::x_forwarded_uri, target},
                                          {http::field_name::x_forwarded_host, host}};
constexpr described_part x_original[] = {
    {http::field_name::x_original_method, method},
    {http::field_name::x_original_url, target},
    {http::field_name::x_original_uri, target},
    {http::field_name::x_original_host, host}};

description read(http::request_head const& check, described_parts known) noexcept {
    description found;
    std::array<bool, 3> has{};
    for (auto const& f : check.fields) {
        auto const one = std::ranges::find(known, f.id, &described_part::name);
        if (one == known.end())
            continue;
        found.is_twice |= std::exchange(has[one->what], true);
        found.parts[one->what] = f.value;
    }
    return found;
}

struct url {
    std::string_view host;
    std::string_view target;
};

// Divides `https://host/path` into host and path. Other texts are targets without a host.
url divide(std::string_view text) noexcept {
    auto const end_of_scheme = text.find("://");
    auto const scheme = text.substr(0, end_of_scheme);
    if (end_of_scheme == text.npos ||
        (!http::iequals(scheme, "http") && !http::iequals(scheme, "https")))
        return {{}, text};
    text.remove_prefix(end_of_scheme + 3);
    auto const path = std::min(text.find_first_of("/?"), text.size());
    return {text.substr(0, path), path == text.size() ? "/" : text.substr(path)};
}

}  // namespace

http::fault describe(config::described_by what, http::request_head const& check,
                     http::request_head& out) {
    if (what == config::described_by::itself)
        return {};
    bool const is_forwarded = what == config::described_by::x_forwarded;
    auto const found =
        read(check, is_forwarded ? described_parts(x_forwarded) : described_parts(x_original));
    if (found.is_twice)
        return twice;
    if (found.parts[method].empty())
        return no_method;
    auto [host_of_url, path] =
        is_forwarded ? url{{}, found.parts[target]} : divide(found.parts[target]);
    if (path.empty())
        return no_target;
    auto const named = found.parts[host].empty() ? host_of_url : found.parts[host];
    return http::readdress(out, found.parts[method], path, named.empty() ? check.host : named);
}

}  // namespace proxy
