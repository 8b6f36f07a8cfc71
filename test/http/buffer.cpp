#include "http/buffer.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace {

void put(http::buffer& b, std::string_view text) {
    auto const room = b.room();
    BOOST_REQUIRE(room.size() >= text.size());
    std::ranges::copy(text, room.begin());
    b.commit(text.size());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_buffer)

BOOST_AUTO_TEST_CASE(returns_the_bytes_in_order) {
    http::local_buffer b;
    BOOST_TEST(b.empty());
    put(b, "hello ");
    put(b, "world");
    BOOST_TEST(b.text() == "hello world");
    b.consume(6);
    BOOST_TEST(b.text() == "world");
    b.consume(5);
    BOOST_TEST(b.empty());
    BOOST_TEST(b.room().size() == http::buffer::capacity);
}

BOOST_AUTO_TEST_CASE(holds_a_header_of_32_kilobytes) {
    http::local_buffer b;
    BOOST_TEST(b.room().size() == 32u * 1024);
}

BOOST_AUTO_TEST_CASE(reuses_the_room_of_consumed_bytes) {
    http::local_buffer b;
    std::size_t const part = http::buffer::capacity - 3;
    put(b, std::string(part, 'x'));
    put(b, "abc");
    BOOST_TEST(b.full());
    BOOST_TEST(b.room().empty());
    b.consume(part);
    BOOST_TEST(!b.full());
    put(b, "def");
    BOOST_TEST(b.text() == "abcdef");
}

BOOST_AUTO_TEST_SUITE_END()
