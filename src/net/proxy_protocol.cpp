#include "proxy_protocol.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

namespace net {
namespace {

namespace ip = boost::asio::ip;
using state = introduction::state;

constexpr std::string_view first_mark = "PROXY ";
constexpr std::string_view second_mark{"\r\n\r\n\0\r\nQUIT\n", 12};
constexpr std::size_t longest_line = 107;

introduction const wrong{.is = state::wrong, .size = 0, .ends = {}};

std::string_view next_word(std::string_view& text) {
    auto const word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    return word;
}

std::optional<std::uint16_t> port_of(std::string_view text) {
    int n = 0;
    for (char const c : text) {
        if (c < '0' || c > '9' || n > 65535)
            return std::nullopt;
        n = n * 10 + (c - '0');
    }
    bool const right = !text.empty() && n <= 65535;
    return right ? std::optional(static_cast<std::uint16_t>(n)) : std::nullopt;
}

// PROXY TCP4 192.0.2.1 192.0.2.2 40000 80
introduction parse_line(std::string_view bytes) {
    auto const end = bytes.substr(0, longest_line).find("\r\n");
    if (end == bytes.npos)
        return bytes.size() < longest_line ? introduction() : wrong;
    introduction found{.is = state::complete, .size = end + 2, .ends = {}};
    auto line = bytes.substr(first_mark.size(), end - first_mark.size());
    auto const family = next_word(line);
    if (family == "UNKNOWN")
        return found;
    if (line.find('%') != line.npos)  // the zone of an address means nothing on another machine
        return wrong;
    boost::system::error_code bad;
    auto const source = ip::make_address(std::string(next_word(line)), bad);
    if (bad)
        return wrong;
    auto const target = ip::make_address(std::string(next_word(line)), bad);
    auto const source_port = port_of(next_word(line));
    auto const target_port = port_of(line);
    bool const right =
        !bad && source.is_v4() == target.is_v4() && family == (source.is_v4() ? "TCP4" : "TCP6");
    if (!right || !source_port || !target_port)
        return wrong;
    found.ends = {{source, *source_port}, {target, *target_port}};
    return found;
}

introduction parse_block(std::string_view bytes) {
    constexpr std::size_t head = 16;
    if (bytes.size() < head)
        return {};
    auto const byte = [&](std::size_t i) {
        return static_cast<unsigned>(static_cast<unsigned char>(bytes[i]));
    };
    auto const version = byte(12) >> 4;
    auto const what = byte(12) & 15U;  // 0: a connection of the balancer itself; 1: of a client
    auto const length = byte(14) << 8 | byte(15);
    if (version != 2 || what > 1)
        return wrong;
    if (bytes.size() < head + length)
        return {};
    introduction found{.is = state::complete, .size = head + length, .ends = {}};
    auto const family = byte(13) >> 4;
    // The addresses follow each other, and then the ports.
    auto const read_ends = [&]<class Address>(Address const&) -> connection_ends {
        std::array<typename Address::bytes_type, 2> addresses;
        constexpr auto size = sizeof addresses;
        std::memcpy(addresses.data(), bytes.data() + head, size);
        auto const port_at = [&](std::size_t i) {
            return static_cast<std::uint16_t>(
                byte(head + size + i) << 8 | byte(head + size + i + 1));
        };
        return {{Address(addresses[0]), port_at(0)}, {Address(addresses[1]), port_at(2)}};
    };
    if (what == 0)
        return found;
    if (family == 1) {
        if (length < 12)
            return wrong;
        found.ends = read_ends(ip::address_v4());
    } else if (family == 2) {
        if (length < 36)
            return wrong;
        found.ends = read_ends(ip::address_v6());
    }
    return found;
}

// Both addresses in one family: IPv4 addresses beside IPv6 addresses are mapped. A socket for both families also maps
// them if both ends have one.
ip::address_v6 as_v6(ip::address const& a) {
    return a.is_v6() ? a.to_v6() : ip::make_address_v6(ip::v4_mapped, a.to_v4());
}
std::optional<ip::address_v4> as_v4(ip::address const& a) {
    if (a.is_v4())
        return a.to_v4();
    return a.to_v6().is_v4_mapped() ? std::optional(ip::make_address_v4(ip::v4_mapped, a.to_v6()))
                                    : std::nullopt;
}

std::string make_line(std::optional<connection_ends> const& ends) {
    if (!ends)
        return "PROXY UNKNOWN\r\n";
    auto const& [client, target] = *ends;
    bool const is_v4 = as_v4(client.address()) && as_v4(target.address());
    auto const text = [&](ip::address const& a) {
        return is_v4 ? as_v4(a)->to_string() : ip::address_v6(as_v6(a).to_bytes()).to_string();
    };
    std::string line(first_mark);
    line += is_v4 ? "TCP4 " : "TCP6 ";
    line += text(client.address()) + ' ' + text(target.address()) + ' ';
    return line + std::to_string(client.port()) + ' ' + std::to_string(target.port()) + "\r\n";
}

enum class origin : char { own = 0x20, of_client = 0x21 };

void add_number(std::string& to, std::size_t n) {
    to += static_cast<char>(n >> 8);
    to += static_cast<char>(n & 255);
}

enum class part : char {
    alpn = 1,
    authority = 2,
    tls = 0x20,
    tls_version = 0x21,
    tls_cipher = 0x23
};

void add_part(std::string& to, part type, std::string_view value) {
    if (value.empty())
        return;
    to += static_cast<char>(type);
    add_number(to, value.size());
    to += value;
}

std::string parts_of(introduced_tls const& t) {
    std::string all;
    add_part(all, part::alpn, t.protocol);
    add_part(all, part::authority, t.server_name);
    constexpr char uses_tls = 1, certificate_of_connection = 2, certificate_of_session = 4;
    auto client = uses_tls;
    if (t.verified != introduced_tls::certificate::none)
        client |= certificate_of_session;
    if (t.verified == introduced_tls::certificate::of_connection)
        client |= certificate_of_connection;
    // The last four bytes are 0 if a certificate was verified.
    std::string tls{client, '\0', '\0', '\0',
                    t.verified == introduced_tls::certificate::none ? '\1' : '\0'};
    add_part(tls, part::tls_version, t.version);
    add_part(tls, part::tls_cipher, t.cipher);
    add_part(all, part::tls, tls);
    return all;
}

std::string make_block(origin what, std::optional<connection_ends> const& ends,
                       std::optional<introduced_tls> const& tls = {}) {
    std::string body;
    char family = 0;
    if (ends) {
        auto const& [client, target] = *ends;
        bool const is_v4 = as_v4(client.address()) && as_v4(target.address());
        family = is_v4 ? 0x11 : 0x21;
        auto const add = [&body](auto const& bytes) { body.append(bytes.begin(), bytes.end()); };
        for (auto const* const end : {&client, &target}) {
            if (is_v4)
                add(as_v4(end->address())->to_bytes());
            else
                add(as_v6(end->address()).to_bytes());
        }
        add_number(body, client.port());
        add_number(body, target.port());
    }
    if (tls)
        body += parts_of(*tls);
    std::string block(second_mark);
    block += static_cast<char>(what);
    block += family;
    add_number(block, body.size());
    return block + body;
}

}  // namespace

std::string make_introduction(int version, std::optional<connection_ends> const& ends,
                              std::optional<introduced_tls> const& tls) {
    return version == 1 ? make_line(ends) : make_block(origin::of_client, ends, tls);
}

std::string make_own_introduction(int version) {
    return version == 1 ? make_line({}) : make_block(origin::own, {});
}

introduction parse_introduction(std::string_view bytes) {
    auto const begins_like = [&](std::string_view mark) {
        return bytes.substr(0, mark.size()) == mark.substr(0, bytes.size());
    };
    if (begins_like(first_mark))
        return bytes.size() < first_mark.size() ? introduction() : parse_line(bytes);
    if (begins_like(second_mark))
        return bytes.size() < second_mark.size() ? introduction() : parse_block(bytes);
    return wrong;
}

}  // namespace net
