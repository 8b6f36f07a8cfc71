#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

namespace weir::inline v0_2 {

/// Returns the `standing::flow` of requests for the partition with this name. The value is the same in every program:
/// the hash FNV-1a of Fowler, Noll and Vo.
[[nodiscard]] constexpr std::uint64_t partition_flow(std::string_view name) noexcept {
    std::uint64_t flow = 0xcbf29ce484222325;
    for (char const c : name)
        flow = (flow ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return flow;
}

/// A named share of the seats of a limiter, for certain requests: see `queue_order::shares`.
class partition {
public:
    /// The maximum number of characters in a name.
    static constexpr std::size_t max_name_length = 14;

    /// A partition without a name and with 0 per cent.
    constexpr partition() noexcept = default;
    /// A partition with `percent` per cent of the seats.
    ///
    /// @throws std::invalid_argument if `name` is longer than `max_name_length`, or `percent` is not from 0 to 100
    constexpr partition(std::string_view name, int percent)
        : percent_(static_cast<std::uint8_t>(percent)),
          length_(static_cast<std::uint8_t>(name.size())) {
        if (name.size() > max_name_length)
            throw std::invalid_argument("weir::partition: the name `" + std::string(name) +
                                        "` has more than 14 characters");
        if (percent < 0 || percent > 100)
            throw std::invalid_argument("weir::partition: percent is " + std::to_string(percent) +
                                        ", but must be from 0 to 100");
        std::ranges::copy(name, name_.begin());
    }

    /// Returns the name.
    [[nodiscard]] constexpr std::string_view name() const noexcept {
        return {name_.data(), length_};
    }
    /// Returns the percentage of the seats.
    [[nodiscard]] constexpr int percent() const noexcept { return percent_; }
    /// Returns the `standing::flow` of requests for this partition.
    [[nodiscard]] constexpr std::uint64_t flow() const noexcept { return partition_flow(name()); }

    friend constexpr bool operator==(partition const&, partition const&) = default;

private:
    std::array<char, max_name_length> name_{};
    std::uint8_t percent_ = 0;
    std::uint8_t length_ = 0;
};

/// Up to 8 partitions, such as `{{"live", 70}, {"batch", 30}}`.
class partitions {
public:
    /// The maximum number of partitions.
    static constexpr std::size_t max_size = 8;

    /// No partitions.
    constexpr partitions() noexcept = default;
    /// The partitions of a list.
    ///
    /// @throws std::invalid_argument if the list has more than `max_size`
    constexpr partitions(std::initializer_list<partition> all) {
        for (auto const& one : all)
            add(one);
    }
    /// Adds a partition.
    ///
    /// @throws std::invalid_argument if there are `max_size` already
    constexpr void add(partition const& one) {
        if (size_ == max_size)
            throw std::invalid_argument("weir::partitions: more than 8 partitions");
        all_[size_++] = one;
    }

    /// Returns whether there are no partitions.
    [[nodiscard]] constexpr bool empty() const noexcept { return size_ == 0; }
    /// Returns the number of partitions.
    [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
    /// Returns the first partition.
    [[nodiscard]] constexpr partition const* begin() const noexcept { return all_.data(); }
    /// Returns the end of the partitions.
    [[nodiscard]] constexpr partition const* end() const noexcept { return all_.data() + size_; }

    friend constexpr bool operator==(partitions const&, partitions const&) = default;

private:
    std::array<partition, max_size> all_{};
    std::size_t size_ = 0;
};

}  // namespace weir::inline v0_2
