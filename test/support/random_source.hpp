#pragma once

#include <weir/detail/random.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>

namespace support {

/// Pseudo-random numbers that are the same each time, with any standard library.
class random_source {
public:
    explicit random_source(std::uint64_t seed) noexcept : state_(seed) {}

    [[nodiscard]] std::uint64_t bits() noexcept {
        return weir::detail::mix_bits(state_ += weir::detail::next_in_series);
    }

    /// From `least` to `most`, both included.
    [[nodiscard]] std::int64_t between(std::int64_t least, std::int64_t most) noexcept {
        auto const values =
            static_cast<std::uint64_t>(most) - static_cast<std::uint64_t>(least) + 1;
        auto const offset = values == 0 ? bits() : bits() % values;
        return static_cast<std::int64_t>(static_cast<std::uint64_t>(least) + offset);
    }

    /// From 0 to `most`, with small numbers as frequent as large ones.
    [[nodiscard]] std::int64_t of_any_size(std::int64_t most) noexcept {
        return between(0, most) >> between(0, 62);
    }

    [[nodiscard]] bool one_in(std::int64_t n) noexcept { return between(1, n) == 1; }

    template <class T>
    [[nodiscard]] T one_of(std::initializer_list<T> values) noexcept {
        return *std::next(values.begin(), between(0, static_cast<std::int64_t>(values.size()) - 1));
    }
    template <class Container>
    [[nodiscard]] std::size_t index_in(Container const& c) noexcept {
        return static_cast<std::size_t>(between(0, static_cast<std::int64_t>(std::size(c)) - 1));
    }

private:
    std::uint64_t state_;
};

}  // namespace support
