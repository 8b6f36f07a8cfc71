#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

/// The bytes of a saved state, by the words of src/docs/reference/saved-state.md.
namespace support::saved {

/// CRC-32C.
inline std::uint32_t checksum(std::string_view bytes) {
    auto sum = ~std::uint32_t{};
    for (char const c : bytes) {
        sum ^= static_cast<unsigned char>(c);
        for (int bit = 0; bit != 8; ++bit)
            sum = (sum >> 1) ^ ((sum & 1) != 0 ? 0x82f63b78U : 0);
    }
    return ~sum;
}
/// Appends a number of `size` bytes, the least significant first.
inline void append(std::string& to, std::uint64_t n, int size) {
    for (; size != 0; --size, n >>= 8)
        to.push_back(static_cast<char>(static_cast<unsigned char>(n)));
}
inline std::string header(std::uint64_t wall_time = 0, std::uint64_t version = 1) {
    std::string file("WEIRSTAT");
    append(file, version, 2);
    append(file, wall_time, 8);
    append(file, checksum(file), 4);
    return file;
}
/// Returns a file in which all checksums are right, whatever its records are, in blocks of at most `block` bytes.
inline std::string file_with(std::string_view records, std::uint64_t wall_time = 0,
                             std::size_t block = 65'536) {
    auto file = header(wall_time);
    while (!records.empty()) {
        auto const part = records.substr(0, block);
        append(file, part.size(), 4);
        append(file, checksum(part), 4);
        file += part;
        records.remove_prefix(part.size());
    }
    return file;
}

}  // namespace support::saved
