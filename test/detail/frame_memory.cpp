#include <weir/detail/frame_memory.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

BOOST_AUTO_TEST_SUITE(the_memory_in_a_frame)

namespace {

using weir::detail::frame_allocator;
using weir::detail::frame_memory_for;

template <std::size_t Size>
struct alignas(16) block {
    std::byte bytes[Size];
};

struct alignas(64) over_aligned {
    std::byte bytes[64];
};

constexpr std::size_t size = 256;
using frame_memory = frame_memory_for<block<size>>;

template <class T>
bool lies_in(void const* p, frame_memory_for<T> const& memory) {
    auto const address = reinterpret_cast<std::uintptr_t>(p);
    auto const start = reinterpret_cast<std::uintptr_t>(&memory);
    return address >= start && address < start + sizeof(memory);
}

template <class T>
bool is_aligned(T const* p) {
    return reinterpret_cast<std::uintptr_t>(p) % alignof(T) == 0;
}

}  // namespace

// It contains pointers into itself.
static_assert(!std::is_copy_constructible_v<frame_memory>);
static_assert(!std::is_move_constructible_v<frame_memory>);
static_assert(std::is_same_v<std::allocator_traits<frame_allocator<int>>::rebind_alloc<char>,
                             frame_allocator<char>>);
static_assert(std::is_nothrow_constructible_v<frame_allocator<int>, frame_allocator<void>>);

BOOST_AUTO_TEST_CASE(is_given_to_the_first_object_that_fits) {
    frame_memory memory;
    frame_allocator<block<128>> allocator(memory);
    auto* const first = allocator.allocate(1);
    BOOST_TEST(lies_in(first, memory));
    BOOST_TEST(is_aligned(first));

    auto* const second = allocator.allocate(1);
    BOOST_TEST(!lies_in(second, memory));

    allocator.deallocate(first, 1);
    allocator.deallocate(second, 1);
}

BOOST_AUTO_TEST_CASE(is_given_again_after_its_deallocation) {
    frame_memory memory;
    frame_allocator<block<64>> allocator(memory);
    for (int i = 0; i != 3; ++i) {
        auto* const here = allocator.allocate(1);
        auto* const elsewhere = allocator.allocate(1);
        BOOST_TEST(lies_in(here, memory));
        BOOST_TEST(!lies_in(elsewhere, memory));

        // Deallocating memory of another source does not free it.
        allocator.deallocate(elsewhere, 1);
        auto* const still_elsewhere = allocator.allocate(1);
        BOOST_TEST(!lies_in(still_elsewhere, memory));
        allocator.deallocate(still_elsewhere, 1);
        allocator.deallocate(here, 1);
    }
}

BOOST_AUTO_TEST_CASE(holds_an_object_of_its_size_and_no_larger_one) {
    frame_memory memory;
    frame_allocator<block<size>> fitting(memory);
    auto* const fits = fitting.allocate(1);
    BOOST_TEST(lies_in(fits, memory));
    fitting.deallocate(fits, 1);

    frame_allocator<block<size + 16>> large(memory);
    auto* const too_large = large.allocate(1);
    BOOST_TEST(!lies_in(too_large, memory));
    large.deallocate(too_large, 1);

    frame_allocator<char> characters(memory);
    auto* const row = characters.allocate(size);
    BOOST_TEST(lies_in(row, memory));
    characters.deallocate(row, size);
    auto* const longer = characters.allocate(size + 1);
    BOOST_TEST(!lies_in(longer, memory));
    characters.deallocate(longer, size + 1);
}

BOOST_AUTO_TEST_CASE(is_not_part_of_the_frame_for_a_very_large_object) {
    using very_large = block<frame_memory::most + 16>;
    static_assert(frame_memory_for<block<frame_memory::most>>::fits);
    static_assert(!frame_memory_for<very_large>::fits);
    static_assert(!frame_memory_for<over_aligned>::fits);
    static_assert(sizeof(frame_memory_for<very_large>) < 64);

    frame_memory_for<very_large> memory;
    frame_allocator<char> characters(memory);
    auto* const elsewhere = characters.allocate(1);
    BOOST_TEST(!lies_in(elsewhere, memory));
    characters.deallocate(elsewhere, 1);
}

BOOST_AUTO_TEST_CASE(is_not_given_to_an_object_with_a_larger_alignment) {
    frame_memory memory;
    frame_allocator<over_aligned> allocator(memory);
    auto* const elsewhere = allocator.allocate(1);
    BOOST_TEST(!lies_in(elsewhere, memory));
    BOOST_TEST(is_aligned(elsewhere));
    allocator.deallocate(elsewhere, 1);
}

BOOST_AUTO_TEST_CASE(is_shared_by_allocators_for_other_types) {
    frame_memory memory;
    frame_memory other_memory;
    frame_allocator<void> const for_nothing(memory);
    frame_allocator<int> numbers(for_nothing);
    frame_allocator<char> characters(numbers);
    BOOST_TEST((numbers == characters));
    BOOST_TEST((numbers == for_nothing));
    BOOST_TEST((numbers != frame_allocator<int>(other_memory)));

    int* const number = numbers.allocate(1);
    char* const character = characters.allocate(1);
    BOOST_TEST(lies_in(number, memory));
    BOOST_TEST(!lies_in(character, memory));
    characters.deallocate(character, 1);

    // An equal allocator may deallocate it.
    frame_allocator<int>(characters).deallocate(number, 1);
    char* const again = characters.allocate(1);
    BOOST_TEST(lies_in(again, memory));
    characters.deallocate(again, 1);
}

BOOST_AUTO_TEST_SUITE_END()
