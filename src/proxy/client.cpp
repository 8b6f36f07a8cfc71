#include "client.hpp"

#include "http/characters.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

namespace proxy {
namespace {

namespace ip = boost::asio::ip;

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && http::is_blank(text.front()))
        text.remove_prefix(1);
    while (!text.empty() && http::is_blank(text.back()))
        text.remove_suffix(1);
    return text;
}

// `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`.
std::optional<ip::address> address_of(std::string_view text) {
    if (text.starts_with('[')) {
        auto const end = text.find(']');
        bool const whole = end != text.npos && (end + 1 == text.size() || text[end + 1] == ':');
        text = whole ? text.substr(1, end - 1) : "";
    } else if (std::ranges::count(text, ':') == 1) {
        text = text.substr(0, text.find(':'));
    }
    boost::system::error_code bad;
    auto const found = ip::make_address(std::string(text), bad);
    return bad ? std::nullopt : std::optional(found);
}

// The members of a list, from the left. A comma between quotes is none.
template <class F>
void each_member(std::string_view text, char separator, F f) {
    bool quoted = false;
    std::size_t begin = 0;
    for (std::size_t i = 0; i != text.size(); ++i) {
        if (text[i] == '"')
            quoted = !quoted;
        else if (quoted && text[i] == '\\' && i + 1 != text.size())
            ++i;
        else if (!quoted && text[i] == separator) {
            f(trimmed(text.substr(begin, i - begin)));
            begin = i + 1;
        }
    }
    f(trimmed(text.substr(begin)));
}

// Of `for=192.0.2.60;proto=http` (RFC 7239).
std::optional<ip::address> forwarded_for(std::string_view element) {
    std::optional<ip::address> found;
    each_member(element, ';', [&](std::string_view pair) {
        auto const equals = pair.find('=');
        if (equals == pair.npos || !http::iequals(pair.substr(0, equals), "for"))
            return;
        auto value = pair.substr(equals + 1);
        if (value.size() >= 2 && value.starts_with('"') && value.ends_with('"'))
            value = value.substr(1, value.size() - 2);
        found = address_of(value);
    });
    return found;
}

std::array<std::uint8_t, 16> bytes_of(ip::address const& address) {
    return (address.is_v4() ? ip::make_address_v6(ip::v4_mapped, address.to_v4()) : address.to_v6())
        .to_bytes();
}

}  // namespace

bool is_trusted(config::clients_options const& c, ip::address const& peer) {
    if (peer.is_unspecified())
        return !c.trusted.empty();
    auto const bytes = bytes_of(peer);
    return std::ranges::any_of(c.trusted, [&](auto const& n) { return n.contains(bytes); });
}

ip::address client_of(config::clients_options const& c, http::request_head const& request,
                      ip::address const& peer) {
    if (c.trusted.empty() || !is_trusted(c, peer))
        return peer;
    bool const old = c.forwarded_by == config::forwarded_by::x_forwarded_for;
    std::vector<std::optional<ip::address>> way;
    for (auto const& f : request.fields)
        if (http::iequals(f.name, old ? "x-forwarded-for" : "forwarded"))
            each_member(f.value, ',', [&](std::string_view member) {
                if (!member.empty())
                    way.push_back(old ? address_of(member) : forwarded_for(member));
            });
    auto client = peer;
    for (auto const& hop : way | std::views::reverse) {
        if (!hop)
            break;
        client = *hop;
        if (!is_trusted(c, client) || client.is_unspecified())
            break;
    }
    return client;
}

}  // namespace proxy
