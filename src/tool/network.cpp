#include "network.hpp"

#include "text.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cstddef>

namespace tool {
namespace {

struct parsed_address {
    std::array<std::uint8_t, 16> bytes{};
    bool is_v4 = false;
};

std::optional<parsed_address> address_bytes(std::string const& text) {
    parsed_address found;
    if (::inet_pton(AF_INET6, text.c_str(), found.bytes.data()) == 1)
        return found;
    found.bytes = {};
    found.bytes[10] = found.bytes[11] = 0xff;
    found.is_v4 = true;
    if (::inet_pton(AF_INET, text.c_str(), found.bytes.data() + 12) == 1)
        return found;
    return {};
}

}  // namespace

bool is_v4_mapped(std::array<std::uint8_t, 16> const& address) noexcept {
    constexpr std::array<std::uint8_t, 12> mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return std::equal(mapped.begin(), mapped.end(), address.begin());
}

bool network::is_v4() const noexcept {
    return prefix >= mapped_bits && is_v4_mapped(address);
}

network network::first(int bits) const noexcept {
    network n{address, bits};
    auto at = static_cast<std::size_t>(bits) / 8;
    if (bits % 8 != 0)
        n.address[at++] &= static_cast<std::uint8_t>(0xff00 >> bits % 8);
    std::fill(n.address.begin() + static_cast<std::ptrdiff_t>(at), n.address.end(),
              std::uint8_t{0});
    return n;
}

bool network::contains(std::array<std::uint8_t, 16> const& other) const noexcept {
    auto const bytes = static_cast<std::size_t>(prefix) / 8;
    if (!std::equal(address.begin(), address.begin() + static_cast<std::ptrdiff_t>(bytes),
                    other.begin()))
        return false;
    auto const bits = prefix % 8;
    return bits == 0 || ((address[bytes] ^ other[bytes]) >> (8 - bits)) == 0;
}

std::optional<network> network_of(std::string_view text) {
    auto const slash = text.find('/');
    auto const found = address_bytes(std::string(text.substr(0, slash)));
    if (!found)
        return {};
    auto const width = found->is_v4 ? 32 : 128;
    auto const prefix = slash == text.npos ? width : number_of(text.substr(slash + 1)).value_or(-1);
    if (prefix < 0 || prefix > width)
        return {};
    network n{found->bytes, static_cast<int>(prefix) + (found->is_v4 ? mapped_bits : 0)};
    for (auto bit = n.prefix; bit < 128; ++bit)
        if (n.address[static_cast<std::size_t>(bit) / 8] >> (7 - bit % 8) & 1)
            return {};
    return n;
}

bool is_loopback(std::array<std::uint8_t, 16> const& address) {
    static auto const v4 = network_of("127.0.0.0/8");
    static auto const v6 = network_of("::1");
    return v4->contains(address) || v6->contains(address);
}

std::string to_string(network const& n) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    bool const v4 = n.is_v4();
    if (v4)
        ::inet_ntop(AF_INET, n.address.data() + 12, text.data(), text.size());
    else
        ::inet_ntop(AF_INET6, n.address.data(), text.data(), text.size());
    auto const width = v4 ? 32 : 128;
    auto const prefix = n.prefix - (v4 ? mapped_bits : 0);
    return prefix == width ? text.data() : std::string(text.data()) + '/' + std::to_string(prefix);
}

}  // namespace tool
