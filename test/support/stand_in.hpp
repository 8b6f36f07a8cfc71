#pragma once

#include <weir/detail/operation.hpp>

namespace support {

/// An operation that waits in a queue and is never completed.
class stand_in : public weir::detail::operation {
public:
    bool post() override { return true; }
    void run() override {}
    void destroy() noexcept override {}
};

}  // namespace support
