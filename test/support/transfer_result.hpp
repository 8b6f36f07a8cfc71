#pragma once

#include <weir/error.hpp>
#include <weir/testing.hpp>

#include <cstddef>

namespace support {

/// The outcome of a read or a write, and its virtual time.
struct transfer_result {
    int calls = 0;
    weir::error_code ec;
    std::size_t n = 0;
    weir::testing::clock::time_point at;

    [[nodiscard]] auto handler() {
        return [this](weir::error_code e, std::size_t bytes) {
            ++calls;
            ec = e;
            n = bytes;
            at = weir::testing::clock::now();
        };
    }
};

}  // namespace support
