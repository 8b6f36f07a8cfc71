#include "net/proxy_protocol.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
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
        BOOST_TEST((whole.ends ? whole.ends->client.address().to_string() : "") == client);
        // The result does not depend on how the bytes are divided.
        for (std::size_t n = 0; n != text.size(); ++n)
            BOOST_TEST((net::parse_introduction(text.substr(0, n)).is == state::incomplete), n);
    }
}

BOOST_AUTO_TEST_CASE(name_both_ends) {
    auto const ends_in = [](std::string const& text) {
        auto const found = net::parse_introduction(text).ends.value();
        return std::pair(found.client, found.target);
    };
    auto const end = [](char const* address, std::uint16_t port) {
        return boost::asio::ip::tcp::endpoint(boost::asio::ip::make_address(address), port);
    };
    BOOST_TEST((ends_in("PROXY TCP4 192.0.2.1 192.0.2.2 4711 80\r\n") ==
                std::pair(end("192.0.2.1", 4711), end("192.0.2.2", 80))));
    BOOST_TEST((ends_in(block(0x21, 0x11, v4)) ==
                std::pair(end("192.0.2.1", 4096), end("192.0.2.2", 80))));
    BOOST_TEST((ends_in(block(0x21, 0x21, v6)) == std::pair(end("::1", 0), end("::", 0))));
}

// HAProxy's proxy-protocol.txt has these bytes.
BOOST_AUTO_TEST_CASE(are_made_for_servers) {
    auto const ends = [](char const* client, std::uint16_t from, char const* target) {
        return net::connection_ends{{boost::asio::ip::make_address(client), from},
                                    {boost::asio::ip::make_address(target), 80}};
    };
    auto const of_v4 = ends("192.0.2.1", 4096, "192.0.2.2");
    auto const of_v6 = ends("2001:db8::1", 1, "::1");
    auto const mixed = ends("192.0.2.1", 1, "::1");
    BOOST_TEST(net::make_introduction(1, of_v4) == "PROXY TCP4 192.0.2.1 192.0.2.2 4096 80\r\n");
    BOOST_TEST(net::make_introduction(1, of_v6) == "PROXY TCP6 2001:db8::1 ::1 1 80\r\n");
    BOOST_TEST(net::make_introduction(1, mixed) == "PROXY TCP6 ::ffff:192.0.2.1 ::1 1 80\r\n");
    // The zone of an address means nothing on another machine.
    BOOST_TEST(net::make_introduction(1, ends("fe80::1%1", 1, "fe80::2%1")) ==
               "PROXY TCP6 fe80::1 fe80::2 1 80\r\n");
    // As a socket for both families has them.
    auto const mapped = ends("::ffff:192.0.2.1", 4096, "::ffff:192.0.2.2");
    for (int const version : {1, 2})
        BOOST_TEST(net::make_introduction(version, mapped) ==
                   net::make_introduction(version, of_v4));
    BOOST_TEST(net::make_introduction(1, {}) == "PROXY UNKNOWN\r\n");
    BOOST_TEST(net::make_own_introduction(1) == "PROXY UNKNOWN\r\n");
    BOOST_TEST(net::make_introduction(2, of_v4) == block(0x21, 0x11, v4));
    std::string body("\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1", 16);
    body += std::string(15, '\0') + std::string("\1\0\1\0\x50", 5);
    BOOST_TEST(net::make_introduction(2, of_v6) == block(0x21, 0x21, body));
    BOOST_TEST(net::make_introduction(2, {}) == block(0x21, 0, ""));
    BOOST_TEST(net::make_own_introduction(2) == block(0x20, 0, ""));
    for (int const version : {1, 2})
        for (auto const& one : {of_v4, of_v6})
            BOOST_TEST((net::parse_introduction(net::make_introduction(version, one)).ends == one));
}

// The oracle is proxy-protocol.txt, 2.2.
BOOST_AUTO_TEST_CASE(may_have_the_parts_of_tls) {
    net::connection_ends const ends{{boost::asio::ip::make_address("192.0.2.1"), 4096},
                                    {boost::asio::ip::make_address("192.0.2.2"), 80}};
    net::introduced_tls const all{
        .version = "TLSv1.3", .cipher = "C", .server_name = "a.example", .protocol = "h2"};
    std::string const parts(
        "\x01\0\x02h2"
        "\x02\0\x09"
        "a.example"
        "\x20\0\x13\x01\0\0\0\x01"
        "\x21\0\x07TLSv1.3"
        "\x23\0\x01"
        "C",
        5 + 12 + 8 + 10 + 4);
    BOOST_TEST(net::make_introduction(2, ends, all) == block(0x21, 0x11, v4 + parts));
    BOOST_TEST(net::make_introduction(2, {}, all) == block(0x21, 0, parts));
    BOOST_TEST(net::make_introduction(1, ends, all) == net::make_introduction(1, ends));
    std::string const least("\x20\0\x05\x01\0\0\0\x01", 8);
    BOOST_TEST(net::make_introduction(2, ends, net::introduced_tls()) ==
               block(0x21, 0x11, v4 + least));
    // Its client gave a certificate, which was verified: on this connection, or when the session began.
    using certificate = net::introduced_tls::certificate;
    for (auto const& [verified, client] :
         {std::pair(certificate::of_connection, '\7'), std::pair(certificate::of_session, '\5')}) {
        std::string expected("\x20\0\x05\0\0\0\0\0", 8);
        expected[3] = client;
        net::introduced_tls tls;
        tls.verified = verified;
        BOOST_TEST(net::make_introduction(2, ends, tls) == block(0x21, 0x11, v4 + expected));
    }
    for (auto const& tls : {all, net::introduced_tls()})
        BOOST_TEST((net::parse_introduction(net::make_introduction(2, ends, tls)).ends == ends));
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
        "PROXY TCP6 fe80::1%1 ::1 1 2\r\n",
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
