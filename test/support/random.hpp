#pragma once

#include <weir/detail/random.hpp>

#include "support/random_source.hpp"
#include "support/sanitizer.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <cstdlib>
#include <string>

namespace support {

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
