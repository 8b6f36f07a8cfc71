#pragma once

#include <weir/error.hpp>
#include <weir/policy/outage.hpp>
#include <weir/shared/store.hpp>

#include <mutex>
#include <new>
#include <string>

namespace weir::inline v0_2::detail {

/// Keeps the error of the last question of a shared limiter, if it failed.
class last_failure {
public:
    [[nodiscard]] store_failure get() const {
        std::lock_guard lock(mutex_);
        return failure_;
    }
    /// Records the result of a question. A question that was not sent shows no new error. Its text, if it has one, is
    /// of the last attempt to connect.
    void note(error_code ec, failure_kind kind, std::string const& text) noexcept {
        std::lock_guard lock(mutex_);
        if (ec && kind == failure_kind::unsent && (text.empty() || failure_.error))
            return;
        failure_.error = ec;
        failure_.text.clear();
        try {
            failure_.text = text;
        } catch (std::bad_alloc const&) {
            // Then the error has no text.
        }
    }

private:
    std::mutex mutable mutex_;
    store_failure failure_;
};

}  // namespace weir::inline v0_2::detail
