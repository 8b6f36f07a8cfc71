#pragma once

namespace tool {

/// Returns freed memory from the allocator to the system, if the allocator supports this.
void give_memory_back() noexcept;

}  // namespace tool
