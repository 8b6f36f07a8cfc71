#pragma once

#include <cstddef>
#include <span>

namespace tool {

/// Returns the whole pages of `unused`, whose content is lost, to the system, if it supports this.
void give_pages_back(std::span<char> unused) noexcept;

/// Returns freed memory from the allocator to the system, if the allocator supports this.
void give_memory_back() noexcept;

/// Whole pages of memory, which share no page with other objects and leave no gaps between other objects. A page that was
/// never written takes no memory.
class pages {
public:
    /// Throws `std::bad_alloc`.
    explicit pages(std::size_t bytes);
    pages(pages const&) = delete;
    ~pages();

    [[nodiscard]] char* data() const noexcept { return bytes_.data(); }

private:
    std::span<char> bytes_;
};

}  // namespace tool
