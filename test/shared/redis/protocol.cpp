#include "weir/redis/protocol.hpp"

#include <weir/redis/error.hpp>

#include "support/random.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Oracle: the description of version 2 of the protocol (redis.io, "Redis serialization protocol specification").

namespace {

using weir::redis::detail::append_command;
using weir::redis::detail::reply;
using weir::redis::detail::reply_reader;

reply only(std::string_view bytes) {
    reply_reader reader;
    reader.add(bytes);
    auto const said = reader.next();
    BOOST_REQUIRE(said.has_value());
    BOOST_TEST(reader.is_empty());
    BOOST_TEST(!reader.is_invalid());
    BOOST_TEST(!reader.next().has_value());
    return *said;
}

std::string list_of(std::vector<std::string> const& elements) {
    auto text = "*" + std::to_string(elements.size()) + "\r\n";
    for (auto const& one : elements)
        text += one;
    return text;
}

// All kinds of replies, one after the other.
std::string const all_kinds =
    "+OK\r\n-READONLY replica\r\n:-7\r\n$0\r\n\r\n$4\r\na\r\nb\r\n$-1\r\n*-1\r\n*0\r\n"
    "*4\r\n:1\r\n$1\r\nx\r\n*2\r\n:5\r\n+y\r\n$-1\r\n";

void check_all_kinds(std::vector<reply> const& said) {
    BOOST_REQUIRE(said.size() == 9U);
    BOOST_TEST(said[0].text == "OK");
    BOOST_TEST(!said[0].error);
    BOOST_TEST(said[1].text == "READONLY replica");
    BOOST_TEST(said[1].error == make_error_code(weir::redis::errc::read_only));
    BOOST_TEST((said[2].numbers == std::vector<std::int64_t>{-7}));
    BOOST_TEST(said[3].text == "");
    BOOST_TEST(said[4].text == "a\r\nb");
    for (std::size_t i = 5; i != 8; ++i)
        BOOST_TEST((said[i].text.empty() && said[i].numbers.empty() && said[i].texts.empty()));
    BOOST_TEST((said[8].numbers == std::vector<std::int64_t>{1}));
    BOOST_TEST((said[8].texts == std::vector<std::string>{"x"}));
    BOOST_TEST(said[8].text == "");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(redis_protocol)

BOOST_AUTO_TEST_CASE(command_is_a_list_of_its_words) {
    std::string sent = "before";
    append_command(sent, {"SET", "", "a\r\nb", std::string_view("\0", 1)});
    std::string expected = "before*4\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\na\r\nb\r\n$1\r\n";
    expected += '\0';
    BOOST_TEST(sent == expected + "\r\n");
}

BOOST_AUTO_TEST_CASE(replies_are_found_wherever_the_bytes_are_cut) {
    for (std::size_t first = 0; first <= all_kinds.size(); ++first) {
        for (std::size_t second = first; second <= all_kinds.size(); ++second) {
            reply_reader reader;
            std::vector<reply> said;
            std::string_view const bytes = all_kinds;
            for (auto const part : {bytes.substr(0, first), bytes.substr(first, second - first),
                                    bytes.substr(second)}) {
                reader.add(part);
                while (auto one = reader.next())
                    said.push_back(*one);
                BOOST_TEST_REQUIRE(!reader.is_invalid());
            }
            check_all_kinds(said);
            BOOST_TEST_REQUIRE(reader.is_empty());
        }
    }
}

BOOST_AUTO_TEST_CASE(numbers_have_sixty_four_bits) {
    using limits = std::numeric_limits<std::int64_t>;
    for (auto const n : {limits::min(), limits::max(), std::int64_t{0}})
        BOOST_TEST(only(":" + std::to_string(n) + "\r\n").numbers.at(0) == n);
}

BOOST_AUTO_TEST_CASE(lists_may_be_nested_eight_deep) {
    auto nested = [](int depth) {
        std::string text = ":1\r\n";
        for (int i = 0; i != depth; ++i)
            text = list_of({text});
        return text;
    };
    static_cast<void>(only(nested(8)));
    reply_reader reader;
    reader.add(nested(9));
    BOOST_TEST(!reader.next().has_value());
    BOOST_TEST(reader.is_invalid());
}

BOOST_AUTO_TEST_CASE(reply_has_at_most_a_mebibyte) {
    std::string const text(1'048'576 - 10 - 2, 'x');
    BOOST_TEST(only("$1048564\r\n" + text + "\r\n").text == text);
    reply_reader larger;
    larger.add("$1048565\r\n" + text + "x\r\n");
    BOOST_TEST(!larger.next().has_value());
    BOOST_TEST(larger.is_invalid());

    reply_reader reader;
    reader.add("*1000000\r\n");
    std::string const one = "$5\r\nabcde\r\n";
    int parts = 0;
    for (; !reader.is_invalid() && parts != 200'000; ++parts) {
        reader.add(one);
        if (parts % 1000 == 0)
            BOOST_TEST(!reader.next().has_value());
    }
    BOOST_TEST(reader.is_invalid());
    BOOST_TEST(static_cast<std::size_t>(parts) * one.size() < (std::size_t{1} << 20) + 20'000);
}

BOOST_DATA_TEST_CASE(
    what_is_not_a_reply_is_invalid,
    boost::unit_test::data::make({
        "hello\r\n",
        "\r\n",
        "\n",
        "+OK\n",
        "+O\nK\r\n",
        "+O\rK\r\n",
        ":\r\n",
        ":1x\r\n",
        ":9223372036854775808\r\n",
        "$-2\r\n",
        "$1048577\r\n",
        "$9223372036854775808\r\n",
        "$x\r\n",
        "$3\r\nabcd\r\n",
        "$3\r\nabc\n\r",
        "*-2\r\n",
        "*1048577\r\n",
        "*1\r\nx",
        "*1\r\n>1\r\n",
        ">1\r\n:1\r\n",
        "%1\r\n",
        "*2\r\n:1\r\n$x\r\n",
    }),
    bytes) {
    reply_reader reader;
    std::string more = bytes;
    more += "+OK\r\n";
    reader.add(more);
    BOOST_TEST(!reader.next().has_value());
    BOOST_TEST(reader.is_invalid());
    reader.add("+OK\r\n");
    BOOST_TEST(!reader.next().has_value());
    BOOST_TEST(reader.is_invalid());
}

BOOST_AUTO_TEST_CASE(changed_bytes_never_break_the_reader) {
    std::string const marks("\r\n$*+-:0129x\0\xff", 14);
    support::for_each_seed(1, 20'000, [&](auto& random) {
        auto bytes = all_kinds;
        for (auto changes = random.between(1, 3); changes != 0; --changes)
            bytes[random.index_in(bytes)] = marks[random.index_in(marks)];
        reply_reader reader;
        reader.add(bytes);
        std::size_t found = 0;
        while (reader.next())
            ++found;
        BOOST_TEST_REQUIRE(found <= bytes.size() / 3);
    });
}

BOOST_AUTO_TEST_SUITE_END()
