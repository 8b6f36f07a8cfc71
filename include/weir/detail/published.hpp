#pragma once

#include <weir/detail/option_changes.hpp>

#include <cstdint>
#include <mutex>
#include <utility>

namespace weir::inline v0_2::detail {

/// The newest options of an object that has several parts. A change is published here first and then applied to one
/// part after the other, without the lock. The numbers of the versions tell each part which of two changes is newer.
template <class T>
class published {
public:
    struct version {
        T value;
        std::uint64_t number = 0;
    };

    explicit published(T first) : newest_{std::move(first)} {}

    [[nodiscard]] T value() const {
        std::lock_guard lock(mutex_);
        return newest_.value;
    }

    /// Replaces the value by `prepare(value)` and returns the new version. It calls `prepare` without the lock, and
    /// calls it again if another thread has replaced the value meanwhile.
    template <class Prepare>
    [[nodiscard]] version replace(Prepare prepare) {
        version made{};
        auto const lock = [this] { return std::lock_guard(mutex_); };
        changes_.make(
            lock, [this] { return newest_.value; }, prepare, lock,
            [&](T& next) {
                std::swap(newest_.value, next);
                ++newest_.number;
                made = newest_;
            });
        return made;
    }

private:
    std::mutex mutable mutex_;
    option_changes changes_;
    version newest_;
};

}  // namespace weir::inline v0_2::detail
