#include "net/client_hello.hpp"

#include "hello_message.hpp"
#include "hello_properties.hpp"

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <random>
#include <string>
#include <string_view>

// Files of this folder are compiled together.
namespace first_messages {
namespace {

using namespace std::string_literals;
using hello::asks_for;
using hello::message;
using hello::name;
using hello::names;
using hello::records_of;
using hello::state;
using hello::vector;
using net::client_hello;

client_hello parse(std::string_view message, std::size_t length = 16'384) {
    return net::parse_client_hello(records_of(message, length));
}
client_hello parse(message const& m) {
    return parse(m.text());
}
bool is_wrong(message const& m) {
    return parse(m).is == state::wrong;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_client_hello)

BOOST_AUTO_TEST_CASE(names_a_server) {
    auto const found = parse(asks_for("Db.Example.org"));
    BOOST_TEST((found.is == state::complete));
    BOOST_TEST(found.server_name == "Db.Example.org");
    // The parser leaves it to others what these name.
    for (auto const* const odd : {"db.example.org.", "192.0.2.1", "2001:db8::1", "*.a", "a_b"})
        BOOST_TEST(parse(asks_for(odd)).server_name == odd);
    BOOST_TEST(parse(asks_for(std::string(255, 'a'))).server_name.size() == 255u);
}

BOOST_AUTO_TEST_CASE(may_name_none) {
    message const plain;
    message without{.has_extensions = false};
    message const other{.session = "", .extensions = {{43, "\x02\x03\x04"}, {0xfafa, "\0"s}}};
    for (auto const& m : {plain, without, other}) {
        BOOST_TEST((parse(m).is == state::complete));
        BOOST_TEST(parse(m).server_name == "");
    }
}

BOOST_AUTO_TEST_CASE(has_at_most_one_good_name) {
    auto const with = [](std::string const& extension) {
        return message{.extensions = {{0, extension}}};
    };
    BOOST_TEST(!is_wrong(with(names(name("a")))));
    BOOST_TEST(is_wrong(with(names(name("a") + name("b")))));
    BOOST_TEST(is_wrong(with(names(name("a") + name("b", 1)))));
    BOOST_TEST(is_wrong(with(names(name("a", 1)))));
    BOOST_TEST(is_wrong(with(names(name("")))));
    BOOST_TEST(is_wrong(with(names(""))));
    BOOST_TEST(is_wrong(with("")));
    BOOST_TEST(is_wrong(with(names(name("a")) + "x")));
    BOOST_TEST(is_wrong(with(names(name(std::string(256, 'a'))))));
    for (auto const& bad : {"a\0b"s, "a b"s, "\x7f"s, "\xc3\xa4.example"s, "a\n"s})
        BOOST_TEST(is_wrong(with(names(name(bad)))));
    auto cut = names(name("abc"));
    cut.pop_back();
    BOOST_TEST(is_wrong(with(cut)));
}

BOOST_AUTO_TEST_CASE(has_one_extension_of_each_type) {
    auto const twice = [](std::size_t a, std::size_t b) {
        return message{.extensions = {{a, names(name("a"))}, {7, ""}, {b, names(name("a"))}}};
    };
    BOOST_TEST(is_wrong(twice(0, 0)));
    BOOST_TEST(is_wrong(twice(0x3a3a, 0x3a3a)));
    BOOST_TEST(is_wrong(twice(0, 7)));
    BOOST_TEST(!is_wrong(twice(0x2a2a, 0x3a3a)));
    BOOST_TEST(!is_wrong(twice(256, 0)));
}

BOOST_AUTO_TEST_CASE(has_the_fields_of_the_standard) {
    BOOST_TEST(is_wrong({.session = std::string(33, 's')}));
    BOOST_TEST(is_wrong({.ciphers = ""}));
    BOOST_TEST(is_wrong({.ciphers = "\x13\x01\x13"}));
    BOOST_TEST(is_wrong({.compressions = ""}));
    auto const body = asks_for("a.example").body();
    for (std::size_t n = 0; n != body.size(); ++n) {
        // Without extensions at all it is whole.
        bool const whole = n == 2 + 32 + 33 + 6 + 2;
        BOOST_TEST((parse('\x01' + vector(body.substr(0, n), 3)).is == state::wrong) == !whole);
    }
    BOOST_TEST((parse('\x01' + vector(body + "x", 3)).is == state::wrong));
}

BOOST_AUTO_TEST_CASE(is_the_first_message) {
    auto const whole = records_of(asks_for("a.example").text(), 16'384);
    BOOST_TEST(net::parse_client_hello(whole + "\x17\x03\x03 early data").server_name ==
               "a.example");
    BOOST_TEST(parse(asks_for("a.example").text() + "\x01 another").server_name == "a.example");
    for (auto const& other :
         {"GET / HTTP/1.1\r\n"s, "SSH-2.0-x\r\n"s, "\0"s,
          "\x80\x2e\x01\x03\x01\0\x15\0\0\0\x10"s,  // SSLv2
          "\x15\x03\x01\0\x02\x01\0"s,              // an alert
          "\x16\x02"s, "\x16\x03\x01\0\0"s,         // a record without content
          "\x16\x03\x01\x40\x01"s,                  // a record that is too long
          "\x16\x03\x01\0\x01\x02"s,                // a ServerHello
          "\x16\x03\x01\0\x04\x01\x01\0\0"s})       // 64 KiB
        BOOST_TEST((net::parse_client_hello(other).is == state::wrong));
    // Another record between its fragments.
    auto const half = records_of(asks_for("a.example").text().substr(0, 50), 50);
    BOOST_TEST((net::parse_client_hello(half).is == state::incomplete));
    BOOST_TEST((net::parse_client_hello(half + "\x17").is == state::wrong));
}

BOOST_AUTO_TEST_CASE(has_at_most_16_KiB) {
    auto const with = [](std::size_t size) {
        message m{.extensions = {{21, ""}, {0, names(name("a"))}}};
        m.extensions[0].second.resize(size - m.text().size() - 5);
        return m.text();
    };
    BOOST_TEST(parse(with(16'384)).server_name == "a");
    BOOST_TEST((parse(with(16'385)).is == state::wrong));
    BOOST_TEST((parse(with(16'384), 10'000).is == state::wrong));
    // It is known as soon as the message has its length.
    BOOST_TEST((net::parse_client_hello(records_of(with(16'385), 16'384).substr(0, 9)).is ==
                state::wrong));
    BOOST_TEST((net::parse_client_hello(records_of(with(15'000), 1)).is == state::wrong));
}

// Random messages, right and wrong, in random records and pieces.
BOOST_AUTO_TEST_CASE(is_read_in_any_pieces) {
    std::mt19937 random(2946);
    auto const below = [&](std::size_t n) { return random() % n; };
    for (int i = 0; i != 3'000; ++i) {
        message m;
        m.session.assign(below(33), 's');
        m.ciphers.assign(2 * (1 + below(40)), 'c');
        std::string expected;
        bool right = true;
        for (std::size_t type = 0; type < 60; type += 1 + below(20)) {
            std::string content(below(30), 'x');
            if (type == 0) {
                expected.assign(1 + below(80), 'n');
                content = names(name(expected));
            }
            m.extensions.insert(
                m.extensions.begin() + static_cast<long>(below(m.extensions.size() + 1)),
                {type, content});
        }
        switch (below(6)) {
            case 0:
                m.extensions.push_back(m.extensions[below(m.extensions.size())]);
                right = false;
                break;
            case 1:
                m.compressions.clear();
                right = false;
                break;
            case 2:
                std::erase_if(m.extensions, [](auto const& e) { return e.first == 0; });
                expected.clear();
                break;
            default:
                break;
        }
        auto const text = m.text();
        auto const bytes = records_of(text, 1 + below(text.size() + 3));
        auto const end = below(bytes.size() + 1);
        auto const early = net::parse_client_hello(bytes.substr(0, end));
        auto const whole = net::parse_client_hello(bytes + std::string(below(9), '?'));
        BOOST_TEST((early.is == (end < bytes.size() ? state::incomplete : whole.is)));
        BOOST_TEST((whole.is == (right ? state::complete : state::wrong)));
        BOOST_TEST(whole.server_name == (right ? expected : ""));
        hello::stays_the_same(bytes, end);
        hello::is_the_same_in_records(text, 1 + below(100));
    }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace first_messages
