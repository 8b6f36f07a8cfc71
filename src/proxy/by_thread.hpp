#pragma once

#include <array>
#include <atomic>
#include <cstddef>

namespace proxy {

/// Eight objects of type T. Each thread uses one of them, which few or no other threads share, so that threads that
/// count in it rarely wait for each other.
template <class T>
class by_thread {
public:
    [[nodiscard]] T& mine() noexcept { return parts_[part_of_this_thread()].value; }

    /// Calls `f(T const&)` for each object.
    template <class F>
    void for_each(F f) const {
        for (auto const& one : parts_)
            f(one.value);
    }

private:
    struct alignas(64) part {
        T value{};
    };

    static std::size_t part_of_this_thread() noexcept {
        static std::atomic<std::size_t> threads = 0;
        thread_local std::size_t const mine = threads++;
        return mine % parts;
    }

    static constexpr std::size_t parts = 8;
    std::array<part, parts> parts_{};
};

}  // namespace proxy
