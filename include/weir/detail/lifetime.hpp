#pragma once

#include <cstdint>

namespace weir::detail {

/// What needs a core and its host: the limiter object, permits, and the threads that are at work for it
/// outside its lock. All members are called under the lock.
///
/// | phase       | begins when                          | the host  | what is left to come           |
/// |-------------|--------------------------------------|-----------|--------------------------------|
/// | `in_use`    | the limiter is made                  | is there  | everything                     |
/// | `abandoned` | the limiter object is destroyed      | is there  | the last completions           |
/// | `dead`      | abandoned and nothing is left to do, | is gone   | permits, which do arithmetic   |
/// |             | or the execution context ends        |           | only                           |
class lifetime {
public:
    enum class phase : std::uint8_t { in_use, abandoned, dead };

    [[nodiscard]] bool is_in_use() const noexcept { return phase_ == phase::in_use; }
    [[nodiscard]] bool is_abandoned() const noexcept { return phase_ == phase::abandoned; }
    [[nodiscard]] bool is_dead() const noexcept { return phase_ == phase::dead; }

    void abandon() noexcept {
        if (phase_ == phase::in_use)
            phase_ = phase::abandoned;
    }
    void die() noexcept { phase_ = phase::dead; }

    /// A thread goes to work outside the lock; the core and the context must outlive that.
    void work_begins() noexcept { ++workers_; }
    void work_ends() noexcept { --workers_; }
    [[nodiscard]] bool is_at_work() const noexcept { return workers_ != 0; }

private:
    phase phase_ = phase::in_use;
    std::uint32_t workers_ = 0;
};

}  // namespace weir::detail
