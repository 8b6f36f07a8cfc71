#include "http/field_name.hpp"

#include <boost/test/unit_test.hpp>

#include <string>
#include <string_view>
#include <utility>

// Files of this folder are compiled together.
namespace names_of_fields {

using http::field_name;

constexpr std::pair<std::string_view, field_name> names[] = {
    {"Accept", field_name::accept},
    {"Connection", field_name::connection},
    {"Content-Length", field_name::content_length},
    {"Date", field_name::date},
    {"Expect", field_name::expect},
    {"Forwarded", field_name::forwarded},
    {"Host", field_name::host},
    {"HTTP2-Settings", field_name::http2_settings},
    {"Keep-Alive", field_name::keep_alive},
    {"Proxy-Authenticate", field_name::proxy_authenticate},
    {"Proxy-Authorization", field_name::proxy_authorization},
    {"Proxy-Connection", field_name::proxy_connection},
    {"TE", field_name::te},
    {"Trailer", field_name::trailer},
    {"Transfer-Encoding", field_name::transfer_encoding},
    {"Upgrade", field_name::upgrade},
    {"X-Forwarded-For", field_name::x_forwarded_for},
    {"X-Forwarded-Host", field_name::x_forwarded_host},
    {"X-Forwarded-Method", field_name::x_forwarded_method},
    {"X-Forwarded-Proto", field_name::x_forwarded_proto},
    {"X-Forwarded-Uri", field_name::x_forwarded_uri},
    {"X-Original-Host", field_name::x_original_host},
    {"X-Original-Method", field_name::x_original_method},
    {"X-Original-URI", field_name::x_original_uri},
    {"X-Original-URL", field_name::x_original_url},
    {"X-Request-Id", field_name::x_request_id}};

BOOST_AUTO_TEST_SUITE(the_name_of_a_field)

BOOST_AUTO_TEST_CASE(is_found_without_regard_to_case) {
    for (auto const& [text, name] : names)
        BOOST_TEST_CONTEXT(text) {
            std::string other(text);
            for (char& c : other)
                c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
            BOOST_TEST((http::field_name_of(text) == name));
            BOOST_TEST((http::field_name_of(other) == name));
        }
}

BOOST_AUTO_TEST_CASE(is_known_as_a_whole) {
    for (auto const& [text, name] : names)
        BOOST_TEST_CONTEXT(text) {
            auto changed = std::string(text);
            for (auto& c : changed) {
                auto const before = std::exchange(c, '_');
                BOOST_TEST((http::field_name_of(changed) == field_name::other));
                c = before;
            }
            BOOST_TEST((http::field_name_of(changed + "s") == field_name::other));
            BOOST_TEST((http::field_name_of(text.substr(1)) == field_name::other));
        }
    for (auto const* const text : {"", "a", "Cookie", "Referer", "User-Agent"})
        BOOST_TEST((http::field_name_of(text) == field_name::other));
    BOOST_TEST((http::field_name_of(std::string(1000, 'a')) == field_name::other));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace names_of_fields
