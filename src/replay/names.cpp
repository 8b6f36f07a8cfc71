#include "names.hpp"

#include <weir/client_key.hpp>

#include "limiting/request.hpp"

#include <boost/asio/ip/address.hpp>

#include <fmt/format.h>

#include <cstring>
#include <optional>

namespace replay {
namespace {

// Hashes eight bytes at a time. The hash has no secret seed: a crafted log slows down only its own replay.
std::uint32_t hash_of(std::string_view text) noexcept {
    constexpr std::uint64_t factor = 0x9e3779b97f4a7c15;
    std::uint64_t h = text.size() * factor;
    auto const* at = text.data();
    auto left = text.size();
    for (; left >= 8; left -= 8, at += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, at, 8);
        h = (h ^ word) * factor;
        h ^= h >> 32;
    }
    std::uint64_t word = 0;
    if (left != 0)  // of an empty text, `at` may be null
        std::memcpy(&word, at, left);
    h = (h ^ word) * factor;
    h ^= h >> 29;
    h *= factor;
    return static_cast<std::uint32_t>(h >> 32);
}

// The network of a client, such as `10.1.2.0/24`; the address alone for an IPv4 prefix of 32 bits.
std::optional<std::string> network_of(std::string_view text, int v4_prefix, int v6_prefix) {
    namespace ip = boost::asio::ip;
    boost::system::error_code ec;
    auto const address = ip::make_address(std::string(text), ec);
    if (ec)
        return {};
    auto const first = limiting::address_of_key(weir::client_key(address, v4_prefix, v6_prefix));
    if (first.is_v4() && v4_prefix == 32)
        return first.to_string();
    return fmt::format("{}/{}", first.to_string(), first.is_v4() ? v4_prefix : v6_prefix);
}

}  // namespace

std::uint32_t names::number_of(std::string_view text) {
    return place_of(text).number;
}

names::place names::place_of(std::string_view text) {
    if (2 * (texts_.size() + 1) > slots_.size())
        grow();
    auto const hash = hash_of(text);
    auto const mask = slots_.size() - 1;
    for (auto i = hash & mask;; i = (i + 1) & mask) {
        auto& s = slots_[i];
        if (s.number == none) {
            s = {hash, size()};
            texts_.emplace_back(text);
            return {s.number, true};
        }
        if (s.hash == hash && texts_[s.number] == text)
            return {s.number, false};
    }
}

void names::grow() {
    std::vector<slot> more(slots_.empty() ? 64 : 2 * slots_.size());
    auto const mask = more.size() - 1;
    for (auto const& s : slots_) {
        if (s.number == none)
            continue;
        auto i = s.hash & mask;
        while (more[i].number != none)
            i = (i + 1) & mask;
        more[i] = s;
    }
    slots_.swap(more);
}

std::uint32_t clients::find(std::string_view text) {
    if (auto const network = network_of(text, v4_prefix_, v6_prefix_))
        return clients_.number_of(*network);
    return clients_.number_of(text);
}

}  // namespace replay
