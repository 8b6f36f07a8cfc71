#include "tool/memory.hpp"

#include "support/sanitizer.hpp"

#include <boost/test/unit_test.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <memory>
#include <string>
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

BOOST_AUTO_TEST_CASE(given_pages_return_to_the_system_and_can_be_used_again) {
    constexpr std::size_t size = 64'000'000;
    auto const block = std::make_unique_for_overwrite<char[]>(size);
    std::fill_n(block.get(), size, 'x');
    auto const before = resident();
    tool::give_pages_back({block.get() + 10, size - 20});
    if (before != 0)
        BOOST_TEST(before - resident() > size * 9 / 10);
    BOOST_TEST(std::string(block.get(), 10) == std::string(10, 'x'));
    BOOST_TEST(std::string(block.get() + size - 10, 10) == std::string(10, 'x'));
    std::fill_n(block.get(), size, 'y');
    BOOST_TEST(block[size / 2] == 'y');
    tool::give_pages_back({block.get() + 1, 100});
    BOOST_TEST(block[50] == 'y');
}

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
