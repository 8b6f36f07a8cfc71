// Who may ask, and who may change something.

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

// A request, whose texts live as long as this.
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

BOOST_AUTO_TEST_CASE(lets_this_machine_in) {
    for (auto const& g : {guard_with(), guard_with("10.0.0.0/8")}) {
        for (char const* const mine : {"127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"})
            BOOST_TEST(lets_in(g, mine), mine);
        BOOST_TEST(g.lets_in({}));  // by a unix socket
    }
}

BOOST_AUTO_TEST_CASE(lets_in_networks_that_are_allowed) {
    auto const g = guard_with("10.0.0.0/8");
    BOOST_TEST(lets_in(g, "10.255.0.1"));
    BOOST_TEST(lets_in(g, "::ffff:10.0.0.1"));
    BOOST_TEST(!lets_in(g, "11.0.0.1"));
    BOOST_TEST(!lets_in(g, "192.168.0.1"));
    BOOST_TEST(!lets_in(g, "2001:db8::1"));
    BOOST_TEST(!lets_in(guard_with(), "10.0.0.1"));
    BOOST_TEST(lets_in(guard_with("2001:db8::/32"), "2001:db8::1"));
}

// A browser that another site has led here sends the name of that site.
BOOST_AUTO_TEST_CASE(knows_the_hosts_of_this_machine) {
    auto const g = guard_with({}, "weir.example.org");
    for (std::string_view const mine :
         {"127.0.0.1", "127.0.0.1:9090", "[::1]:9090", "10.1.2.3:9090", "localhost",
          "LocalHost:9090", "weir.example.org:9090", "WEIR.example.org"})
        BOOST_TEST(is_here(g, mine), mine);
    BOOST_TEST(g.is_here(http::request_head()));  // of HTTP/1.0, which has no Host
    for (std::string_view const other :
         {"evil.example", "evil.example:9090", "weir.example.org.evil.example", "localhost.evil",
          "xlocalhost", "127.0.0.1.evil.example"})
        BOOST_TEST(!is_here(g, other), other);
}

BOOST_AUTO_TEST_CASE(allows_a_change_by_a_program_or_by_the_page_itself) {
    BOOST_TEST(wrong(text) == 0u);
    BOOST_TEST(wrong("Content-Type: Text/Plain; charset=utf-8\r\n") == 0u);
    BOOST_TEST(wrong_with("Sec-Fetch-Site: same-origin\r\n") == 0u);
    BOOST_TEST(wrong_with("Sec-Fetch-Site: none\r\n") == 0u);
    BOOST_TEST(wrong_with("Origin: http://127.0.0.1:9090\r\n") == 0u);
}

BOOST_AUTO_TEST_CASE(forbids_a_change_by_the_page_of_another_site) {
    for (std::string_view const site : {"cross-site", "same-site", "Same-Origin", "other"})
        BOOST_TEST(wrong_with("Sec-Fetch-Site: " + std::string(site) + "\r\n") == 403u, site);
    for (std::string_view const origin : {"null", "http://evil.example", "http://127.0.0.1",
                                          "http://127.0.0.1:9091", "127.0.0.1:9090", "http://"})
        BOOST_TEST(wrong_with("Origin: " + std::string(origin) + "\r\n") == 403u, origin);
    BOOST_TEST(wrong(text, "evil.example") == 403u);
}

// A page of another site can send these without a question before.
BOOST_AUTO_TEST_CASE(forbids_what_a_form_sends) {
    BOOST_TEST(wrong("") == 415u);
    for (std::string_view const type :
         {"application/x-www-form-urlencoded", "multipart/form-data", "text/html", "text/plainer"})
        BOOST_TEST(wrong("Content-Type: " + std::string(type) + "\r\n") == 415u, type);
}

BOOST_AUTO_TEST_CASE(forbids_all_changes_where_nothing_may_be_written) {
    auto g = guard_with();
    g.write = false;
    BOOST_TEST(g.forbids_change(asked("127.0.0.1", text).head).status == 403u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace guards
