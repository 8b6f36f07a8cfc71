#pragma once

#include "network.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>
#include <variant>

namespace tool {

/// Values by network. `find` makes one lookup for each prefix length that occurs, so its cost does not depend on the
/// number of networks. An IPv4 address belongs to IPv4 networks only, so `::/0` is all of IPv6.
template <class T>
class network_map {
public:
    /// Adds a value. Returns false, and changes nothing, if the network has a value already.
    bool add(network const& n, T value) {
        return by_prefix_[n.prefix].try_emplace(n.address, std::move(value)).second;
    }
    [[nodiscard]] bool empty() const noexcept { return by_prefix_.empty(); }

    /// The value of the longest network that contains an address of 16 bytes, mapped if it is IPv4; null if none does.
    [[nodiscard]] T const* find(std::array<std::uint8_t, 16> const& address) const {
        network const whole{address, 128};
        bool const v4 = is_v4_mapped(address);
        for (auto const& [prefix, values] : by_prefix_) {
            if (v4 && prefix < mapped_bits)
                break;
            if (auto const found = values.find(whole.first(prefix).address); found != values.end())
                return &found->second;
        }
        return nullptr;
    }

private:
    struct hash {
        std::size_t operator()(std::array<std::uint8_t, 16> const& address) const noexcept {
            std::uint64_t halves[2];
            std::memcpy(halves, address.data(), sizeof halves);
            auto const mixed = (halves[0] ^ halves[0] >> 29) * 0x9e3779b97f4a7c15 + halves[1];
            return static_cast<std::size_t>((mixed ^ mixed >> 32) * 0xbf58476d1ce4e5b9 >> 7);
        }
    };
    // The longest prefix first.
    std::map<int, std::unordered_map<std::array<std::uint8_t, 16>, T, hash>, std::greater<>>
        by_prefix_;
};

using network_set = network_map<std::monostate>;

}  // namespace tool
