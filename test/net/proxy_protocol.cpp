#include "net/proxy_protocol.hpp"

#include <boost/test/unit_test.hpp>

#include <string>
#include <string_view>
#include <vector>

using state = net::introduction::state;

namespace {

std::string block(unsigned char what, unsigned char family, std::string const& body) {
    std::string text;
    text.assign("\r\n\r\n\0\r\nQUIT\n", 12);
    text += static_cast<char>(what);
    text += static_cast<char>(family);
    text += static_cast<char>(body.size() >> 8);
    text += static_cast<char>(body.size() & 255);
    return text + body;
}

std::string const v4{"\xc0\0\2\1\xc0\0\2\2\x10\0\0\x50", 12};

std::string const v6 = [] {
    std::string body(36, '\0');
    body[15] = 1;
    return body;
}();

}  // namespace

BOOST_AUTO_TEST_SUITE(proxy_protocol_headers)

BOOST_AUTO_TEST_CASE(name_a_client) {
    struct row {
        std::string text, client;
    };
    for (auto const& [text, client] :
         {row{"PROXY TCP4 192.0.2.1 192.0.2.2 4711 80\r\n", "192.0.2.1"},
          row{"PROXY TCP6 2001:db8::1 ::1 0 65535\r\n", "2001:db8::1"},
          row{"PROXY UNKNOWN\r\n", ""}, row{"PROXY UNKNOWN what ever\r\n", ""},
          row{block(0x21, 0x11, v4), "192.0.2.1"}, row{block(0x21, 0x12, v4 + "more"), "192.0.2.1"},
          row{block(0x20, 0x11, v4), ""}, row{block(0x21, 0x00, ""), ""},
          row{block(0x21, 0x31, std::string(216, 'x')), ""}, row{block(0x21, 0x21, v6), "::1"}}) {
        auto const whole = net::parse_introduction(text + "GET");
        BOOST_TEST((whole.is == state::complete), text);
        BOOST_TEST(whole.size == text.size());
        BOOST_TEST((whole.client ? whole.client->to_string() : "") == client);
        // The result does not depend on how the bytes are divided.
        for (std::size_t n = 0; n != text.size(); ++n)
            BOOST_TEST((net::parse_introduction(text.substr(0, n)).is == state::incomplete), n);
    }
}

BOOST_AUTO_TEST_CASE(may_be_invalid) {
    std::vector<std::string> const all{
        "GET / HTTP/1.1\r\n",
        "PROXY",
        "proxy TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP4\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n",
        "PROXY TCP4 192.0.2.1 ::1 1 2\r\n",
        "PROXY TCP4 ::1 ::1 1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 -1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n" + std::string(107, ' '),
        block(0x11, 0x11, v4),
        block(0x22, 0x11, v4),
        block(0x21, 0x11, v4.substr(1)),
        block(0x21, 0x21, std::string(35, 'x')),
        std::string("\r\n\r\n\0\r\nQUIX\n", 12)};
    for (auto const& text : all)
        BOOST_TEST((net::parse_introduction(text).is ==
                    (text == "PROXY" ? state::incomplete : state::wrong)),
                   text);
}

BOOST_AUTO_TEST_SUITE_END()
