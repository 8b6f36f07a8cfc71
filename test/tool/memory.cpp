#include "tool/memory.hpp"

#include "support/sanitizer.hpp"

#include <boost/test/unit_test.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <memory>
#include <vector>

namespace {

// The memory of the process that is resident.
std::size_t resident() {
    std::ifstream file("/proc/self/statm");
    std::size_t all = 0;
    std::size_t pages = 0;
    file >> all >> pages;
    return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

// glibc keeps freed memory that is below memory in use.
BOOST_AUTO_TEST_CASE(freed_memory_returns_to_the_system) {
    if (support::sanitizer || resident() == 0)
        return;
    constexpr std::size_t size = 16'000;
    std::vector<std::unique_ptr<char[]>> blocks(4'000);
    for (auto& b : blocks) {
        b = std::make_unique_for_overwrite<char[]>(size);
        std::fill_n(b.get(), size, 'x');
    }
    auto const before = resident();
    for (auto i = blocks.begin(); i != blocks.end() - 1; ++i)
        i->reset();
    tool::give_memory_back();
    BOOST_TEST(before - resident() > (blocks.size() - 1) * size * 9 / 10);
}
