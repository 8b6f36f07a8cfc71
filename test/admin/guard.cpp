// Which clients may read the admin pages, and which requests may change something.

#include "admin/guard.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/test/unit_test.hpp>

#include <string>
#include <string_view>

// Files of this folder are compiled together.
namespace guards {
namespace {

admin::guard guard_with(std::string_view allowed = {}, std::string host = "127.0.0.1") {
    admin::guard g{.host = std::move(host), .allow = {}, .write = true};
    if (!allowed.empty())
        g.allow.push_back(*tool::network_of(allowed));
    return g;
}

bool lets_in(admin::guard const& g, char const* peer) {
    return g.lets_in(boost::asio::ip::make_address(peer));
}

// A request. `head` refers to `text`.
struct asked {
    asked(std::string_view host, std::string_view fields)
        : text("PUT /limits/a HTTP/1.1\r\nHost: " + std::string(host) + "\r\n" +
               std::string(fields) + "\r\n") {
        BOOST_REQUIRE(!http::parse(text, head));
    }
    std::string text;
    http::request_head head;
};

bool is_here(admin::guard const& g, std::string_view host) {
    return g.is_here(asked(host, "").head);
}

constexpr std::string_view text = "Content-Type: text/plain\r\n";

unsigned wrong(std::string_view fields, std::string_view host = "127.0.0.1:9090") {
    return guard_with().forbids_change(asked(host, fields).head).status;
}
unsigned wrong_with(std::string_view fields) {
    return wrong(std::string(text) + std::string(fields));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_guard)

BOOST_AUTO_TEST_CASE(allows_this_machine) {
    for (auto const& g : {guard_with(), guard_with("10.0.0.0/8")}) {
        for (char const* const mine : {"127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"})
            BOOST_TEST(lets_in(g, mine), mine);
        BOOST_TEST(g.lets_in({}));  // the peer of a Unix socket
    }
}

BOOST_AUTO_TEST_CASE(allows_only_configured_networks) {
    auto const g = guard_with("10.0.0.0/8");
    BOOST_TEST(lets_in(g, "10.255.0.1"));
    BOOST_TEST(lets_in(g, "::ffff:10.0.0.1"));
    BOOST_TEST(!lets_in(g, "11.0.0.1"));
    BOOST_TEST(!lets_in(g, "192.168.0.1"));
    BOOST_TEST(!lets_in(g, "2001:db8::1"));
    BOOST_TEST(!lets_in(guard_with(), "10.0.0.1"));
    BOOST_TEST(lets_in(guard_with("2001:db8::/32"), "2001:db8::1"));
}

// If another site gives its name the address of this machine, a browser sends that name as Host.
BOOST_AUTO_TEST_CASE(accepts_only_hosts_of_this_machine) {
    auto const g = guard_with({}, "weir.example.org");
    for (std::string_view const mine :
         {"127.0.0.1", "127.0.0.1:9090", "[::1]:9090", "10.1.2.3:9090", "localhost",
          "LocalHost:9090", "weir.example.org:9090", "WEIR.example.org"})
        BOOST_TEST(is_here(g, mine), mine);
    BOOST_TEST(g.is_here(http::request_head()));  // HTTP/1.0 has no Host
    for (std::string_view const other :
         {"evil.example", "evil.example:9090", "weir.example.org.evil.example", "localhost.evil",
          "xlocalhost", "127.0.0.1.evil.example", "[::1].evil", "[::1]evil:9090"})
        BOOST_TEST(!is_here(g, other), other);
}

BOOST_AUTO_TEST_CASE(allows_changes_by_programs_and_by_its_own_page) {
    BOOST_TEST(wrong(text) == 0u);
    BOOST_TEST(wrong("Content-Type: Text/Plain; charset=utf-8\r\n") == 0u);
    BOOST_TEST(wrong_with("Sec-Fetch-Site: same-origin\r\n") == 0u);
    BOOST_TEST(wrong_with("Sec-Fetch-Site: none\r\n") == 0u);
    BOOST_TEST(wrong_with("Origin: http://127.0.0.1:9090\r\n") == 0u);
}

BOOST_AUTO_TEST_CASE(forbids_changes_by_pages_of_other_sites) {
    for (std::string_view const site : {"cross-site", "same-site", "Same-Origin", "other"})
        BOOST_TEST(wrong_with("Sec-Fetch-Site: " + std::string(site) + "\r\n") == 403u, site);
    for (std::string_view const origin : {"null", "http://evil.example", "http://127.0.0.1",
                                          "http://127.0.0.1:9091", "127.0.0.1:9090", "http://"})
        BOOST_TEST(wrong_with("Origin: " + std::string(origin) + "\r\n") == 403u, origin);
    BOOST_TEST(wrong(text, "evil.example") == 403u);
}

// A page of another site can send these types without a preflight request.
BOOST_AUTO_TEST_CASE(forbids_the_content_types_of_html_forms) {
    BOOST_TEST(wrong("") == 415u);
    for (std::string_view const type :
         {"application/x-www-form-urlencoded", "multipart/form-data", "text/html", "text/plainer"})
        BOOST_TEST(wrong("Content-Type: " + std::string(type) + "\r\n") == 415u, type);
}

BOOST_AUTO_TEST_CASE(forbids_all_changes_if_write_is_false) {
    auto g = guard_with();
    g.write = false;
    BOOST_TEST(g.forbids_change(asked("127.0.0.1", text).head).status == 403u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace guards
