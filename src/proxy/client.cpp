#include "client.hpp"

#include "http/characters.hpp"

#include <boost/container/small_vector.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>

namespace proxy {
namespace {

namespace ip = boost::asio::ip;

// Whether `text` is a number, or an obfuscated port such as `_a` (RFC 7239, 6.3).
bool is_port(std::string_view text) {
    return http::some(text, text.starts_with('_') ? http::is_token : http::is_digit);
}

// Parses `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:80`.
std::optional<ip::address> address_of(std::string_view text) {
    std::string_view behind;
    if (text.starts_with('[')) {
        auto const end = text.find(']');
        if (end == text.npos)
            return std::nullopt;
        behind = text.substr(end + 1);
        text = text.substr(1, end - 1);
    } else if (std::ranges::count(text, ':') == 1) {
        behind = text.substr(text.find(':'));
        text = text.substr(0, text.find(':'));
    }
    if (!behind.empty() && !(behind.front() == ':' && is_port(behind.substr(1))))
        return std::nullopt;
    // `make_address` would try the other kind first.
    boost::system::error_code bad;
    std::string const name(text);
    auto const found = text.find(':') == text.npos ? ip::address(ip::make_address_v4(name, bad))
                                                   : ip::address(ip::make_address_v6(name, bad));
    return bad ? std::nullopt : std::optional(found);
}

// The meaning of a separator inside quotes.
enum class in_quotes : std::uint8_t { separates, belongs_to_the_member };

// Calls `f` with each member of a list, from left to right.
template <class F>
void each_member(std::string_view text, char separator, in_quotes what, F f) {
    bool const looks_at_quotes = what == in_quotes::belongs_to_the_member;
    bool quoted = false;
    std::size_t begin = 0;
    for (std::size_t i = 0; i != text.size(); ++i) {
        if (looks_at_quotes && text[i] == '"')
            quoted = !quoted;
        else if (quoted && text[i] == '\\' && i + 1 != text.size())
            ++i;
        else if (!quoted && text[i] == separator) {
            f(http::trimmed(text.substr(begin, i - begin)));
            begin = i + 1;
        }
    }
    f(http::trimmed(text.substr(begin)));
}

// Returns the value without its quotes, if it has any. Returns nothing if they do not enclose the whole value.
std::optional<std::string_view> without_quotes(std::string_view value) {
    if (value.find('"') == value.npos)
        return value;
    std::size_t end = 1;
    while (end < value.size() && value[end] != '"')
        end += value[end] == '\\' ? 2 : 1;
    if (value.front() != '"' || end + 1 != value.size())
        return std::nullopt;
    return value.substr(1, end - 1);
}

// Returns the address in an element like `for=192.0.2.60;proto=http` (RFC 7239). A client can send an open quote, and
// then the text that a trusted proxy appends seems to be part of the client's text. So a malformed element has no
// address.
std::optional<ip::address> forwarded_for(std::string_view element) {
    std::optional<ip::address> found;
    bool well_formed = true;
    each_member(element, ';', in_quotes::belongs_to_the_member, [&](std::string_view pair) {
        auto const equals = std::min(pair.find('='), pair.size());
        auto const value = without_quotes(pair.substr(std::min(equals + 1, pair.size())));
        well_formed = well_formed && value;
        if (value && http::iequals(pair.substr(0, equals), "for"))
            found = address_of(*value);
    });
    return well_formed ? found : std::nullopt;
}

}  // namespace

std::array<std::uint8_t, 16> bytes_of(ip::address const& address) {
    return (address.is_v4() ? ip::make_address_v6(ip::v4_mapped, address.to_v4()) : address.to_v6())
        .to_bytes();
}

std::string name_of(ip::address const& client) {
    if (client.is_unspecified())
        return "unknown";
    if (client.is_v6() && client.to_v6().is_v4_mapped())
        return ip::make_address_v4(ip::v4_mapped, client.to_v6()).to_string();
    return client.to_string();
}

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
    // X-Forwarded-For has no quotes.
    auto const quotes = old ? in_quotes::separates : in_quotes::belongs_to_the_member;
    auto const name = old ? http::field_name::x_forwarded_for : http::field_name::forwarded;
    boost::container::small_vector<std::optional<ip::address>, 8> way;
    for (auto const& f : request.fields)
        if (f.id == name)
            each_member(f.value, ',', quotes, [&](std::string_view member) {
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
