#include "request.hpp"

#include "http/characters.hpp"
#include "http/path.hpp"
#include "http/values.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>

namespace limiting {
namespace {

// Whether `host` is `pattern`, or is below `example.org` for the pattern `*.example.org`.
bool is_host(std::string_view pattern, std::string_view host) noexcept {
    host = http::name_of_host(host);
    if (!pattern.starts_with("*."))
        return http::iequals(pattern, host);
    auto const below = pattern.substr(1);
    return host.size() > below.size() &&
           http::iequals(host.substr(host.size() - below.size()), below);
}

}  // namespace

bool fits(config::route const& r, std::string_view host, std::string_view path,
          std::string_view method) {
    return (r.host.empty() || is_host(r.host, host)) &&
           (r.path == "/" || http::begins_with(path, r.path)) &&
           (r.methods.empty() || std::ranges::find(r.methods, method) != r.methods.end());
}

tool::network_set clients_of(config::route const& r) {
    tool::network_set all;
    for (auto const& n : r.clients)
        all.add(n, {});
    return all;
}

tool::network_map<int> weights_of(config::limit const& l) {
    tool::network_map<int> all;
    for (auto const& [text, weight] : l.weights) {
        if (auto const clients = config::clients_in(text, l))
            all.add(clients->network, weight);
    }
    return all;
}

int priority_of(std::string_view value) {
    constexpr int unsaid = weir::standing().priority;
    auto const digit = [](std::string_view text) -> std::optional<int> {
        bool const alone = !text.empty() && text[0] >= '0' && text[0] <= '7' &&
                           (text.size() == 1 || text[1] == ',' || text[1] == ';' || text[1] == ' ');
        return alone ? std::optional(text[0] - '0') : std::nullopt;
    };
    if (value.size() == 1)
        return digit(value).value_or(unsaid);
    // A dictionary of RFC 8941: `u=1, i`.
    while (!value.empty()) {
        auto const end = value.find(',');
        auto member = value.substr(0, end);
        while (member.starts_with(' ') || member.starts_with('\t'))
            member.remove_prefix(1);
        if (member.starts_with("u="))
            return digit(member.substr(2)).value_or(unsaid);
        value.remove_prefix(end == value.npos ? value.size() : end + 1);
    }
    return unsaid;
}

boost::asio::ip::address address_of_key(std::uint64_t key) {
    namespace ip = boost::asio::ip;
    if (key >> 32 == 0xffff)
        return ip::address_v4(static_cast<std::uint32_t>(key));
    ip::address_v6::bytes_type bytes{};
    for (std::size_t i = 0; i != 8; ++i)
        bytes[i] = static_cast<unsigned char>(key >> (56 - 8 * i));
    return ip::address_v6(bytes);
}

}  // namespace limiting
