#pragma once

#include <weir/detail/random.hpp>

#include "support/sanitizer.hpp"

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <string>

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

/// Calls `body(random)` for `count` seeds, from `first` on. A failure names its seed; the environment variable
/// WEIR_TEST_SEED runs only that seed. `test/run --nightly` adds the number of the day to `first`, by
/// WEIR_TEST_SEEDS_FROM. Under a sanitizer, which is slow and finds other errors, only a fifth of the seeds run.
template <class Body>
void for_each_seed(std::uint64_t first, std::uint64_t count, Body body) {
    if (auto const* const wanted = std::getenv("WEIR_TEST_SEED")) {
        first = std::stoull(wanted);
        count = 1;
    } else {
        if (auto const* const from = std::getenv("WEIR_TEST_SEEDS_FROM"))
            first += std::stoull(from);
        if (sanitizer)
            count = (count + 4) / 5;
    }
    for (auto seed = first; seed != first + count; ++seed) {
        BOOST_TEST_CONTEXT("seed " << seed << "; WEIR_TEST_SEED=" << seed << " runs it alone") {
            weir::detail::begin_series(seed);
            random_source random(seed);
            body(random);
        }
    }
}

}  // namespace support
