#include "proxy/mysql_url.hpp"

#include "tool/arguments.hpp"

#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <string>
#include <string_view>

// Files of this folder are compiled together.
namespace mysql_urls {
namespace {

using weir::mysql::tls;

// The parts of a URL, separated by spaces; the message if it is invalid.
std::string parts_of(std::string_view url) {
    try {
        auto const o = proxy::mysql_options("`url`", url);
        auto const where =
            o.socket.empty() ? fmt::format("{} {}", o.host, o.port) : fmt::format("{}", o.socket);
        auto const safe = o.tls == tls::required ? "required"
                          : o.tls == tls::never  ? "never"
                                                 : "if offered";
        return fmt::format("{} {} {} {} {} {}", where, o.user, o.password, o.database, safe,
                           o.authorities);
    } catch (tool::usage_error const& e) {
        return e.what();
    }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_url_of_mysql)

BOOST_AUTO_TEST_CASE(names_the_server_the_user_and_the_database) {
    struct row {
        std::string_view url;
        std::string_view parts;
    };
    for (auto const& [url, parts] : {
             row{"u:p@db:3307/limits", "db 3307 u p limits if offered "},
             row{"u:p@db/limits", "db 3306 u p limits if offered "},
             row{"u@10.0.0.1/limits", "10.0.0.1 3306 u  limits if offered "},
             row{"u@[2001:db8::1]/d", "2001:db8::1 3306 u  d if offered "},
             row{"u@[2001:db8::1]:65535/d", "2001:db8::1 65535 u  d if offered "},
             // Only the last @ ends the password, and only the first colon begins it.
             row{"u:p@1:2@db/d", "db 3306 u p@1:2 d if offered "},
             row{"u%3a:%40p%2f%25@db/d%20e", "db 3306 u: @p/% d e if offered "},
             row{"u:p@/d?socket=%2Frun%2Fmy.sock", "/run/my.sock u p d if offered "},
             row{"u@db/d?tls=never", "db 3306 u  d never "},
             row{"u@/d?tls=required&socket=/s&authorities=%2fa%20b", "/s u  d required /a b"},
         })
        BOOST_TEST(parts_of(fmt::format("mysql://{}", url)) == parts, url);
}

BOOST_AUTO_TEST_CASE(has_one_form_and_is_not_in_the_message) {
    for (std::string_view const url :
         {"",
          "secret",
          "secret@db",
          "secret@/d",
          "db/d",
          "@db/d",
          "secret@db/",
          "u:secret@/d",
          "secret@db:/d",
          "secret@db:65536/d",
          "secret@2001:db8::1/d",
          "secret@db/d?socket=/s",
          "secret@/d?socket=",
          "secret@db/d?tls",
          "secret@db/d?tls=maybe",
          "secret@db/d?&",
          "secret@db/d?size=3",
          "secret%4@db/d",
          "secret%@db/d",
          "secret@db/%zz"}) {
        auto const message = parts_of(fmt::format("mysql://{}", url));
        BOOST_TEST(message.starts_with("`url` must have the form mysql://user:password@"), url);
        BOOST_TEST(message.find("secret") == message.npos, message);
    }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace mysql_urls
