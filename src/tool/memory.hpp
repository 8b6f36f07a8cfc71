#pragma once

#include <span>

namespace tool {

/// Returns the whole pages of `unused`, whose content is lost, to the system, if it supports this.
void give_pages_back(std::span<char> unused) noexcept;

/// Returns freed memory from the allocator to the system, if the allocator supports this.
void give_memory_back() noexcept;

}  // namespace tool
