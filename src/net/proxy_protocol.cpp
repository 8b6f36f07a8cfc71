#include "proxy_protocol.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace net {
namespace {

namespace ip = boost::asio::ip;
using state = introduction::state;

constexpr std::string_view first_mark = "PROXY ";
constexpr std::string_view second_mark{"\r\n\r\n\0\r\nQUIT\n", 12};
constexpr std::size_t longest_line = 107;

constexpr introduction wrong{.is = state::wrong, .size = 0, .client = {}};

std::string_view next_word(std::string_view& text) {
    auto const word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    return word;
}

bool is_port(std::string_view text) {
    int n = 0;
    for (char const c : text) {
        if (c < '0' || c > '9' || n > 65535)
            return false;
        n = n * 10 + (c - '0');
    }
    return !text.empty() && n <= 65535;
}

// PROXY TCP4 192.0.2.1 192.0.2.2 40000 80
introduction parse_line(std::string_view bytes) {
    auto const end = bytes.substr(0, longest_line).find("\r\n");
    if (end == bytes.npos)
        return bytes.size() < longest_line ? introduction() : wrong;
    introduction found{.is = state::complete, .size = end + 2, .client = {}};
    auto line = bytes.substr(first_mark.size(), end - first_mark.size());
    auto const family = next_word(line);
    if (family == "UNKNOWN")
        return found;
    boost::system::error_code bad;
    auto const source = ip::make_address(std::string(next_word(line)), bad);
    if (bad)
        return wrong;
    auto const target = ip::make_address(std::string(next_word(line)), bad);
    bool const right = !bad && source.is_v4() == target.is_v4() &&
                       family == (source.is_v4() ? "TCP4" : "TCP6") && is_port(next_word(line));
    if (!right || !is_port(line))
        return wrong;
    found.client = source;
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
    introduction found{.is = state::complete, .size = head + length, .client = {}};
    auto const family = byte(13) >> 4;
    auto const address_at = [&](auto into) {
        std::memcpy(into.data(), bytes.data() + head, into.size());
        return into;
    };
    if (what == 0)
        return found;
    if (family == 1) {
        if (length < 12)
            return wrong;
        found.client = ip::address_v4(address_at(ip::address_v4::bytes_type()));
    } else if (family == 2) {
        if (length < 36)
            return wrong;
        found.client = ip::address_v6(address_at(ip::address_v6::bytes_type()));
    }
    return found;
}

}  // namespace

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
