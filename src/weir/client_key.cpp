#include <weir/client_key.hpp>

#include "check_option.hpp"

#include <cstdint>

namespace weir::inline v0_2 {
namespace {

// Returns the first `prefix` of `bits` bits, in place.
std::uint64_t first_bits(std::uint64_t value, int prefix, int bits) noexcept {
    auto const others = bits - prefix;
    return others >= 64 ? 0 : value >> others << others;
}

}  // namespace

std::uint64_t client_key(boost::asio::ip::address const& address, int v4_prefix, int v6_prefix) {
    detail::check_option("client_key", "v4_prefix", std::int64_t{v4_prefix}, std::int64_t{0},
                         std::int64_t{32});
    detail::check_option("client_key", "v6_prefix", std::int64_t{v6_prefix}, std::int64_t{0},
                         std::int64_t{64});
    namespace ip = boost::asio::ip;
    if (address.is_v4() || address.to_v6().is_v4_mapped()) {
        auto const v4 =
            address.is_v4() ? address.to_v4() : ip::make_address_v4(ip::v4_mapped, address.to_v6());
        constexpr std::uint64_t mark = 0xffff;
        return mark << 32 | first_bits(v4.to_uint(), v4_prefix, 32);
    }
    std::uint64_t network = 0;
    auto const bytes = address.to_v6().to_bytes();
    for (std::size_t i = 0; i != 8; ++i)
        network = network << 8 | bytes[i];
    return first_bits(network, v6_prefix, 64);
}

}  // namespace weir::inline v0_2
