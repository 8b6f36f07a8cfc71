#include "proxy/reading.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

using proxy::exchange;
using proxy::head_search;
using proxy::understand;

namespace {

void put(http::buffer& in, std::string_view text) {
    auto const room = in.room();
    BOOST_REQUIRE(text.size() <= room.size());
    std::ranges::copy(text, room.begin());
    in.commit(text.size());
}

struct client_buffer {
    std::unique_ptr<http::local_buffer> in = std::make_unique<http::local_buffer>();
    exchange::incoming request;
    config::clients_options options;

    // Reads a complete and valid head.
    void read() {
        head_search head;
        BOOST_REQUIRE(!head.look(*in));
        BOOST_REQUIRE(head.found());
        BOOST_REQUIRE(!understand(*in, head.text(*in), options, request));
    }
};

BOOST_AUTO_TEST_CASE(a_head_is_found_however_it_is_split) {
    std::string_view const text = "GET /a HTTP/1.1\r\nHost: b\r\n\r\n";
    for (std::size_t cut = 1; cut != text.size(); ++cut) {
        client_buffer c;
        head_search head;
        put(*c.in, text.substr(0, cut));
        BOOST_REQUIRE(!head.look(*c.in));
        BOOST_TEST(!head.found());
        put(*c.in, text.substr(cut));
        BOOST_REQUIRE(!head.look(*c.in));
        BOOST_REQUIRE(head.found());
        BOOST_TEST(head.text(*c.in) == text);
    }
}

BOOST_AUTO_TEST_CASE(one_empty_line_before_it_is_skipped_but_not_a_second_one) {
    client_buffer c;
    head_search head;
    put(*c.in, "\r\nGET / HTTP/1.1\r\nHost: b\r\n\r\n");
    BOOST_REQUIRE(!head.look(*c.in));
    BOOST_TEST(head.text(*c.in).starts_with("GET"));

    client_buffer two;
    head_search other;
    put(*two.in, "\r\n\r\nGET / HTTP/1.1\r\nHost: b\r\n\r\n");
    BOOST_REQUIRE(!other.look(*two.in));
    BOOST_TEST(other.text(*two.in) == "\r\n");  // an invalid request
    BOOST_TEST(understand(*two.in, other.text(*two.in), two.options, two.request).status == 400u);
}

BOOST_AUTO_TEST_CASE(a_second_empty_line_is_no_request_if_it_comes_later_either) {
    client_buffer c;
    head_search head;
    put(*c.in, "\r\n");
    BOOST_REQUIRE(!head.look(*c.in));
    BOOST_TEST(!head.found());
    BOOST_TEST(c.in->empty());
    put(*c.in, "\r\nGET / HTTP/1.1\r\nHost: b\r\n\r\n");
    BOOST_REQUIRE(!head.look(*c.in));
    BOOST_REQUIRE(head.found());
    BOOST_TEST(understand(*c.in, head.text(*c.in), c.options, c.request).status == 400u);
}

BOOST_AUTO_TEST_CASE(a_head_that_fills_the_buffer_is_too_long) {
    client_buffer line;
    head_search in_line;
    put(*line.in, std::string(http::buffer::capacity, 'a'));
    BOOST_TEST(in_line.look(*line.in).status == 414u);

    client_buffer field;
    head_search in_field;
    std::string const first = "GET / HTTP/1.1\r\nA: ";
    put(*field.in, first + std::string(http::buffer::capacity - first.size(), 'a'));
    BOOST_TEST(in_field.look(*field.in).status == 431u);
}

BOOST_AUTO_TEST_CASE(the_parsed_bytes_are_consumed_and_the_following_bytes_are_not) {
    client_buffer c;
    put(*c.in, "POST / HTTP/1.1\r\nHost: b\r\nContent-Length: 3\r\n\r\nabcGET /next");
    c.read();
    BOOST_TEST(c.request.first == "abc");
    BOOST_TEST(c.request.body_begun);
    BOOST_TEST(c.request.body.done());
    BOOST_TEST(c.in->text() == "GET /next");
    BOOST_TEST(c.request.head.host == "b");
}

BOOST_AUTO_TEST_CASE(a_body_may_arrive_later) {
    client_buffer c;
    put(*c.in, "POST / HTTP/1.1\r\nHost: b\r\nContent-Length: 3\r\n\r\n");
    c.read();
    BOOST_TEST(c.request.first == "");
    BOOST_TEST(!c.request.body_begun);
    BOOST_TEST(!c.request.body.done());
    BOOST_TEST(c.in->empty());
}

BOOST_AUTO_TEST_CASE(the_framing_of_a_body_begins_it) {
    client_buffer c;
    put(*c.in, "POST / HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n");
    c.read();
    BOOST_TEST(c.request.first == "");
    BOOST_TEST(c.request.body_begun);
    BOOST_TEST(!c.request.body.done());
}

BOOST_AUTO_TEST_CASE(malformed_chunks_make_the_request_invalid) {
    client_buffer c;
    head_search head;
    put(*c.in, "POST / HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n");
    BOOST_REQUIRE(!head.look(*c.in));
    BOOST_TEST(understand(*c.in, head.text(*c.in), c.options, c.request).status == 400u);
}

}  // namespace
