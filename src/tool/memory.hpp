#pragma once

namespace tool {

/// Gives memory that has been freed back to the system, if the allocator keeps it and can be asked.
void give_memory_back() noexcept;

}  // namespace tool
