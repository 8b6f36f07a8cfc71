#pragma once

#include <weir/time.hpp>
#include <weir/wait_histogram.hpp>

#include <memory>

namespace weir::detail {

/// A histogram of waits that allocates memory when the first request has to wait.
class wait_recorder {
public:
    /// Call this before a request waits. May throw `std::bad_alloc`.
    void prepare() {
        if (!waits_) [[unlikely]]
            waits_ = std::make_unique<wait_histogram>();
    }
    void add(duration wait) noexcept { waits_->add(wait); }

    [[nodiscard]] wait_histogram recorded() const noexcept {
        return waits_ ? *waits_ : wait_histogram();
    }

private:
    std::unique_ptr<wait_histogram> waits_;
};

}  // namespace weir::detail
