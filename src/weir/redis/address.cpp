#include "address.hpp"

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/system/system_error.hpp>

#include <charconv>
#include <limits>
#include <stdexcept>
#include <utility>

namespace weir::inline v0_2::redis::detail {
namespace {

[[noreturn]] void reject(std::string_view why) {
    throw std::invalid_argument("weir::redis: the URL " + std::string(why));
}

// Removes and returns the text before the first `mark`, and removes the mark; returns an empty text without a mark.
std::string_view cut_front(std::string_view& text, char mark) {
    auto const at = text.find(mark);
    if (at == text.npos)
        return {};
    auto const front = text.substr(0, at);
    text.remove_prefix(at + 1);
    return front;
}

std::string decoded(std::string_view text) {
    std::string plain;
    for (std::size_t i = 0; i != text.size(); ++i) {
        if (text[i] != '%') {
            plain += text[i];
            continue;
        }
        unsigned char byte = 0;
        auto const digits = text.substr(i + 1, 2);
        auto const* const end = digits.data() + digits.size();
        if (digits.size() != 2 || std::from_chars(digits.data(), end, byte, 16).ptr != end)
            reject("has a % that is not followed by two hexadecimal digits");
        plain += static_cast<char>(byte);
        i += 2;
    }
    return plain;
}

template <class Number>
Number number_of(std::string_view text, Number least, char const* why) {
    Number n = 0;
    auto const* const end = text.data() + text.size();
    auto const [stop, failed] = std::from_chars(text.data(), end, n);
    if (failed != std::errc() || stop != end || n < least)
        reject(why);
    return n;
}

std::uint32_t database_of(std::string_view text) {
    return number_of<std::uint32_t>(text, 0, "has a database that is not a number");
}

// Removes `user:password@` from the start.
void cut_login(std::string_view& rest, address& a) {
    auto const at = rest.substr(0, rest.find('/')).rfind('@');
    if (at == rest.npos)
        return;
    auto login = rest.substr(0, at);
    rest.remove_prefix(at + 1);
    if (login.find(':') == login.npos)
        reject("has a user but no password");
    a.user = decoded(cut_front(login, ':'));
    a.password = decoded(login);
    if (a.password.empty())
        reject("has an empty password");
}

address parse_local(std::string_view rest) {
    address a;
    if (rest.starts_with("//")) {
        rest.remove_prefix(2);
        cut_login(rest, a);
    }
    if (auto const options = rest.find('?'); options != rest.npos) {
        auto const said = rest.substr(options + 1);
        if (!said.starts_with("db="))
            reject("has an option other than db");
        a.database = database_of(said.substr(3));
        rest = rest.substr(0, options);
    }
    a.path = decoded(rest);
    if (!a.path.starts_with('/'))
        reject("has no absolute path to a socket");
    if (a.path.find('\0') != a.path.npos)
        reject("contains a NUL byte in its path");
    try {
        boost::asio::local::stream_protocol::endpoint const fits(a.path);
    } catch (boost::system::system_error const&) {
        reject("has a path that is too long for a socket");
    }
    return a;
}

// Sets host and port from `host`, `host:port` or `[address]:port`.
void set_place(address& a, std::string_view place) {
    std::string_view host = place;
    if (place.starts_with('[')) {
        place.remove_prefix(1);
        host = cut_front(place, ']');
        if (!place.empty() && !place.starts_with(':'))
            reject("has unexpected text after the address in brackets");
    } else {
        host = place.substr(0, place.find(':'));
        place.remove_prefix(host.size());
    }
    a.host = decoded(host);
    if (a.host.empty() || a.host.find('\0') != a.host.npos)
        reject("has no host");
    if (!place.empty())
        a.port = number_of<std::uint16_t>(
            place.substr(1), 1, "has a port that is not a number from 1 to 65535");
}

std::vector<address> parse_remote(std::string_view rest) {
    address common;
    cut_login(rest, common);
    auto const slash = rest.find('/');
    if (slash != rest.npos && slash + 1 != rest.size())
        common.database = database_of(rest.substr(slash + 1));
    auto places = rest.substr(0, slash);
    if (places.find_first_of("?#") != places.npos)
        reject("has unexpected text after the host");

    std::vector<address> all;
    for (bool more = true; more;) {
        auto const end = places.find(',');
        set_place(all.emplace_back(common), places.substr(0, end));
        more = end != places.npos;
        places.remove_prefix(more ? end + 1 : places.size());
    }
    return all;
}

}  // namespace

std::vector<address> address::parse(std::string_view url) {
    constexpr std::string_view remote = "redis://";
    constexpr std::string_view local = "unix:";
    if (url.find('\0') != url.npos)
        reject("contains a NUL byte");
    if (url.starts_with(remote))
        return parse_remote(url.substr(remote.size()));
    if (url.starts_with(local))
        return {parse_local(url.substr(local.size()))};
    for (std::string_view const scheme : {"rediss://", "valkeys://"})
        if (url.starts_with(scheme))
            reject("starts with " + std::string(scheme) + ", but weir::redis does not support TLS");
    reject("must start with redis:// or unix:");
}

}  // namespace weir::inline v0_2::redis::detail
