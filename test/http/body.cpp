#include "http/body.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

// Bodies in all framings, from the text of RFC 9112, 6 and 7.

namespace {

using http::framing;
using std::operator""s;

struct taken {
    std::string body;
    std::size_t used = 0;
    bool done = false;
    bool bad = false;
};

// Reads `input`, `step` bytes at a time, up to the end of the body.
taken read(std::string input, framing how, std::uint64_t length = 0, std::size_t step = SIZE_MAX) {
    http::body_reader reader(how, length);
    taken result;
    while (result.used < input.size() && !reader.done() && !reader.bad()) {
        auto const n = std::min(step, input.size() - result.used);
        auto* const at = input.data() + result.used;
        auto const piece = reader.take(at, n);
        BOOST_REQUIRE(piece.body <= piece.used);
        BOOST_REQUIRE(piece.used <= n);
        BOOST_TEST((piece.used == n || reader.done() || reader.bad()));
        result.body.append(at, piece.body);
        result.used += piece.used;
    }
    result.done = reader.done();
    result.bad = reader.bad();
    return result;
}

constexpr std::size_t steps[] = {1, 2, 3, 7, SIZE_MAX};

// The output of a writer for some pieces; the last piece ends the body.
std::string write(framing how, std::vector<std::string> const& pieces) {
    http::body_writer writer(how);
    std::string sent;
    for (auto const& piece : pieces) {
        http::gather out;
        writer.put(out, piece.data(), piece.size(), &piece == &pieces.back());
        for (auto const& part : out)
            sent += part;
    }
    return sent;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_body)

BOOST_AUTO_TEST_CASE(without_framing_is_done_immediately) {
    http::body_reader reader(framing::none, 0);
    BOOST_TEST(reader.done());
    std::string next = "GET /";
    auto const piece = reader.take(next.data(), next.size());
    BOOST_TEST(piece.body == 0);
    BOOST_TEST(piece.used == 0);
    reader.end_of_input();
    BOOST_TEST(reader.done());
    BOOST_TEST(http::body_reader(framing::length, 0).done());
}

BOOST_AUTO_TEST_CASE(with_a_length_ends_with_its_last_byte) {
    for (auto const step : steps) {
        auto const all = read("hello, \r\n0\r\n\r\nnext", framing::length, 14, step);
        BOOST_TEST(all.body == "hello, \r\n0\r\n\r\n");
        BOOST_TEST(all.used == 14);
        BOOST_TEST(all.done);
        auto const part = read("hello", framing::length, 6, step);
        BOOST_TEST(part.body == "hello");
        BOOST_TEST(!part.done);
    }
    BOOST_TEST(!read("hello", framing::length, UINT64_MAX).done);
}

BOOST_AUTO_TEST_CASE(until_close_ends_with_the_input) {
    for (auto const step : steps) {
        auto const all = read("0\r\n\r\nhello", framing::until_close, 0, step);
        BOOST_TEST(all.body == "0\r\n\r\nhello");
        BOOST_TEST(!all.done);
    }
}

BOOST_AUTO_TEST_CASE(that_is_truncated_is_bad) {
    struct row {
        framing how;
        std::string_view input;
        bool done;
    };
    for (auto const& [how, input, done] : std::vector<row>{
             {framing::length, "hell", false},
             {framing::length, "hello", true},
             {framing::until_close, "", true},
             {framing::until_close, "hello", true},
             {framing::chunked, "", false},
             {framing::chunked, "5\r\nhell", false},
             {framing::chunked, "5\r\nhello\r\n", false},
             {framing::chunked, "5\r\nhello\r\n0\r\n", false},
             {framing::chunked, "5\r\nhello\r\n0\r\n\r", false},
             {framing::chunked, "5\r\nhello\r\n0\r\n\r\n", true},
         }) {
        BOOST_TEST_CONTEXT(input) {
            http::body_reader reader(how, 5);
            std::string bytes(input);
            (void)reader.take(bytes.data(), bytes.size());
            reader.end_of_input();
            BOOST_TEST(reader.done() == done);
            BOOST_TEST(reader.bad() == !done);
        }
    }
}

BOOST_AUTO_TEST_CASE(in_chunks_is_extracted) {
    struct row {
        std::string input, body;
    };
    std::string const long_name(5000, 'x');
    for (auto const& [input, body] : std::vector<row>{
             {"0\r\n\r\n", ""},
             {"000\r\n\r\n", ""},
             {"5\r\nhello\r\n0\r\n\r\n", "hello"},
             {"5\r\nhello\r\n2\r\n, \r\n00005\r\nworld\r\n0\r\n\r\n", "hello, world"},
             {"A\r\n0123456789\r\n0\r\n\r\n", "0123456789"},
             {"a\r\n0123456789\r\n0\r\n\r\n", "0123456789"},
             {"1B\r\n0\r\n\r\n0\r\n\r\n0\r\n\r\n0\r\n\r\n0\r\n\r\n!!\r\n0\r\n\r\n",
              "0\r\n\r\n0\r\n\r\n0\r\n\r\n0\r\n\r\n0\r\n\r\n!!"},
             // Blanks after the size.
             {"5 \r\nhello\r\n0\t\r\n\r\n", "hello"},
             {"5  \t   \r\nhello\r\n0 \r\n\r\n", "hello"},
             {"5 ;a\r\nhello\r\n0\t; b=c\r\n\r\n", "hello"},
             // Extensions.
             {"5;a\r\nhello\r\n0;b=c\r\n\r\n", "hello"},
             {"5;a=\"b;\\\"c\"; d\t=\xe4\r\nhello\r\n0\r\n\r\n", "hello"},
             {"5;" + long_name + "\r\nhello\r\n5;" + long_name + "\r\nworld\r\n0\r\n\r\n",
              "helloworld"},
             // Trailers.
             {"0\r\nA: b\r\n\r\n", ""},
             {"1\r\nx\r\n0\r\nA: b\r\nContent-Length: 7\r\nC:\r\n\r\n", "x"},
         }) {
        BOOST_TEST_CONTEXT(input.substr(0, 200)) {
            for (auto const step : steps) {
                auto const all = read(input + "0\r\n\r\n", framing::chunked, 0, step);
                BOOST_TEST(all.body == body);
                BOOST_TEST(all.used == input.size());
                BOOST_TEST(all.done);
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(in_malformed_chunks_is_bad) {
    std::string const long_text(9000, 'x');
    std::string const blanks(9000, ' ');
    std::string const zeros(9000, '0');
    for (auto const& input : {
             "x\r\n"s,
             "\r\n"s,
             ";a\r\n"s,
             "-1\r\n"s,
             "+1\r\na\r\n"s,
             "0x1\r\na\r\n"s,
             "0X1\r\na\r\n"s,
             " 1\r\na\r\n"s,
             "\t1\r\na\r\n"s,
             "1,\r\na\r\n"s,
             "1g\r\na\r\n"s,
             "1\0\r\na\r\n"s,
             "1 1\r\na\r\n"s,
             "1 a\r\na\r\n"s,
             "1 ,\r\na\r\n"s,
             "1 \na\r\n0\r\n\r\n"s,
             "1 \r\r\na\r\n"s,
             "1\x0b\r\na\r\n"s,
             "1\na\r\n0\r\n\r\n"s,
             "1\r\r\na\r\n"s,
             "1\ra\r\n"s,
             "1\r\na\n0\r\n\r\n"s,
             "1\r\nab\r\n0\r\n\r\n"s,
             "1\r\nab\n0\r\n\r\n"s,
             "2\r\na\r\n0\r\n\r\n"s,
             "1\r\na0\r\n\r\n"s,
             "1\r\na\r0\r\n\r\n"s,
             "1\r\na\rx0\r\n\r\n"s,
             "1\r\na\r\n\r\n0\r\n\r\n"s,
             // Extensions.
             "1;a\nb\r\na\r\n0\r\n\r\n"s,
             "1;a\rb\r\na\r\n0\r\n\r\n"s,
             "1;\"a\nb\"\r\na\r\n0\r\n\r\n"s,
             "1;\0\r\na\r\n0\r\n\r\n"s,
             "1;\x7f\r\na\r\n0\r\n\r\n"s,
             // Trailers.
             "0\r\nA: b\n\r\n"s,
             "0\r\n A: b\r\n\r\n"s,
             "0\r\n\tA: b\r\n\r\n"s,
             "0\r\n: b\r\n\r\n"s,
             "0\r\nA: b\rc\r\n\r\n"s,
             "0\r\nA: b\0\r\n\r\n"s,
             "0\r\n\n"s,
             "0\r\n\ra"s,
             "0\n\r\n"s,
             // Too long.
             zeros + "1\r\na\r\n",
             "1" + blanks + "\r\na\r\n",
             "1" + blanks + ";\r\na\r\n",
             "1;" + long_text + "\r\na",
             "0;" + long_text + "\r\n\r\n",
             "0\r\nA: " + long_text + "\r\n\r\n",
         }) {
        BOOST_TEST_CONTEXT(input.substr(0, 100)) {
            for (auto const step : steps) {
                auto const all = read(input, framing::chunked, 0, step);
                BOOST_TEST(all.bad);
                BOOST_TEST(!all.done);
            }
        }
    }
}

// 63 bits are the maximum of a reader with signed numbers.
BOOST_AUTO_TEST_CASE(may_have_chunks_of_63_bits) {
    http::body_reader reader(framing::chunked, 0);
    auto input = "7fffffffffffffff\r\nabc"s;
    auto const piece = reader.take(input.data(), input.size());
    BOOST_TEST(piece.body == 3u);
    BOOST_TEST(!reader.bad());
    BOOST_TEST(!reader.done());
    for (auto const& size : {"8000000000000000", "10000000000000000", "fffffffffffffffff"})
        BOOST_TEST(read(size + "\r\nabc"s, framing::chunked).bad, size);
}

BOOST_AUTO_TEST_CASE(that_is_bad_stays_bad) {
    http::body_reader reader(framing::chunked, 0);
    auto input = "x0\r\n\r\n"s;
    BOOST_TEST(reader.take(input.data(), input.size()).used <= 1u);
    BOOST_TEST(reader.bad());
    BOOST_TEST(reader.take(input.data(), input.size()).used == 0u);
    reader.end_of_input();
    BOOST_TEST(reader.bad());
    BOOST_TEST(!reader.done());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(a_written_body)

BOOST_AUTO_TEST_CASE(is_unchanged_without_chunks) {
    for (auto const how : {framing::none, framing::length, framing::until_close}) {
        BOOST_TEST(write(how, {"hello", "", ", world", ""}) == "hello, world");
        BOOST_TEST(write(how, {""}) == "");
    }
}

BOOST_AUTO_TEST_CASE(can_have_chunks) {
    BOOST_TEST(write(framing::chunked, {""}) == "0\r\n\r\n");
    BOOST_TEST(write(framing::chunked, {"hello"}) == "5\r\nhello\r\n0\r\n\r\n");
    BOOST_TEST(write(framing::chunked, {"hello", ""}) == "5\r\nhello\r\n0\r\n\r\n");
    BOOST_TEST(write(framing::chunked, {"", "hello", "", "world"}) ==
               "5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n");  // an empty chunk would end the body
    std::string const large(0xabc, 'x');
    BOOST_TEST(write(framing::chunked, {large, ""}) == "abc\r\n" + large + "\r\n0\r\n\r\n");
}

BOOST_AUTO_TEST_CASE(may_have_a_piece_of_any_size) {
    http::body_writer writer(framing::chunked);
    http::gather out;
    // `out` contains only its address.
    writer.put(out, "", std::numeric_limits<std::size_t>::max(), true);
    BOOST_TEST(out[0] == "ffffffffffffffff\r\n");
}

BOOST_AUTO_TEST_SUITE_END()
