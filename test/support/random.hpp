#pragma once

#include <weir/detail/random.hpp>

#include "support/nightly.hpp"
#include "support/random_source.hpp"
#include "support/sanitizer.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <cstdlib>
#include <string>

namespace support {

/// Calls `body(random)` for `count` seeds, from `first` on. A failure names its seed; the environment variable
/// WEIR_TEST_SEED runs only that seed. `test/run --nightly` adds WEIR_SEED to `first`, so that each night tries other seeds.
/// Under a sanitizer, which is slow and finds other errors, only a tenth of the seeds run.
template <class Body>
void for_each_seed(std::uint64_t first, std::uint64_t count, Body body) {
    if (auto const* const wanted = std::getenv("WEIR_TEST_SEED")) {
        first = std::stoull(wanted);
        count = 1;
    } else {
        if (auto const* const from = std::getenv("WEIR_SEED"); from && is_nightly())
            first += std::stoull(from);
        if (sanitizer)
            count = (count + 9) / 10;
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
