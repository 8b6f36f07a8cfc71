#pragma once

#include <weir/error.hpp>
#include <weir/policy/policy.hpp>
#include <weir/testing.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace support {

/// Waits for the overdue permits of a limiter, one after the other, until a wait fails.
template <class Limiter>
class watch {
public:
    struct report {
        weir::overdue found;
        weir::testing::clock::time_point at;
    };

    /// `then` is called with each report.
    explicit watch(Limiter& limiter, std::function<void(weir::overdue const&)> then = {})
        : record_(std::make_shared<record>()) {
        record_->limiter = &limiter;
        record_->then = std::move(then);
        wait(record_);
    }
    watch(watch const&) = delete;
    watch& operator=(watch const&) = delete;
    ~watch() { record_->limiter = nullptr; }

    [[nodiscard]] std::vector<report> const& reports() const { return record_->reports; }

    /// The error of the last wait; nothing while the wait continues.
    [[nodiscard]] std::optional<weir::error_code> end() const { return record_->end; }

private:
    struct record {
        Limiter* limiter = nullptr;
        std::function<void(weir::overdue const&)> then;
        std::vector<report> reports;
        std::optional<weir::error_code> end;
    };

    static void wait(std::shared_ptr<record> const& what) {
        what->limiter->async_wait_overdue([what](weir::error_code ec, weir::overdue const& found) {
            if (ec) {
                what->end = ec;
                return;
            }
            what->reports.push_back({found, weir::testing::clock::now()});
            if (what->then)
                what->then(found);
            if (what->limiter)
                wait(what);
        });
    }

    std::shared_ptr<record> record_;
};

}  // namespace support
