#include "weir/postgres/settings.hpp"

#include "weir/postgres/failures.hpp"

#include <boost/asio/error.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>

// The options of weir::postgres, and the messages of libpq, without a server.

namespace {

using namespace std::chrono_literals;
using weir::failure_kind;
using weir::postgres::detail::settings;

bool has(std::string const& text, std::string const& part) {
    return text.find(part) != text.npos;
}

// Returns the value of a parameter of the connections to the first host.
std::string value_of(std::string const& url, std::string const& keyword) {
    settings const s({.url = url});
    auto const all = s.parameters_of(s.targets().front());
    auto const found = std::ranges::find(all, keyword, &settings::parameters::value_type::first);
    return found == all.end() ? "" : found->second;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(postgres_settings)

BOOST_AUTO_TEST_CASE(certificate_of_a_remote_host_is_verified_unless_the_url_says_otherwise) {
    for (auto const* const url :
         {"postgresql://u@db/d", "postgresql://u@10.0.0.1/d", "host=db hostaddr=10.0.0.1",
          "postgresql://u@[2001:db8::1]/d", "postgresql://u@localhost.example/d"}) {
        BOOST_TEST(value_of(url, "sslmode") == "verify-full", url);
        BOOST_TEST(value_of(url, "sslrootcert") != "", url);
    }
    for (auto const* const url :
         {"postgresql:///d", "postgresql:///d?host=/run/postgresql", "postgresql://u@localhost/d",
          "postgresql://u@127.0.0.1/d", "postgresql://u@127.9.9.9/d", "postgresql://u@[::1]/d"})
        BOOST_TEST(value_of(url, "sslmode") == "", url);
    BOOST_TEST(value_of("postgresql://u@db/d?sslmode=require", "sslmode") == "require");
    BOOST_TEST(value_of("postgresql://u@db/d?sslrootcert=/ca.pem", "sslrootcert") == "/ca.pem");
    BOOST_TEST(value_of("postgresql://u@db/d", "target_session_attrs") == "read-write");
}

BOOST_AUTO_TEST_CASE(each_of_several_hosts_has_its_own_default) {
    settings const s({.url = "postgresql://u@db:1,localhost:2/d"});
    BOOST_TEST_REQUIRE(s.targets().size() == 2u);
    BOOST_TEST(s.targets()[0].text() == "db:1");
    BOOST_TEST(!s.targets()[0].is_local());
    BOOST_TEST(s.targets()[0].is_name());
    BOOST_TEST(s.targets()[1].text() == "localhost:2");
    BOOST_TEST(s.targets()[1].is_local());
}

BOOST_AUTO_TEST_CASE(options_that_are_invalid_are_named_without_the_password) {
    auto const why = [](weir::postgres::options const& o) -> std::string {
        try {
            settings const one(o);
        } catch (std::invalid_argument const& e) {
            return e.what();
        }
        return {};
    };
    BOOST_TEST(why({.max_connections = 0}) ==
               "weir::postgres: max_connections is 0, but must be from 1 to 10000");
    BOOST_TEST(why({.connect_timeout = 0s})
                   .starts_with("weir::postgres: connect_timeout is 0s, but must be at least 1ns"));
    BOOST_TEST(why({.url = "postgresql://u:secret@h/d?colour=red"}) ==
               "weir::postgres: url has an invalid URI query parameter: \"colour\"");
    BOOST_TEST(has(why({.url = "postgresql://u:secret@[h/d"}), "is neither a URI of libpq"));
    BOOST_TEST(has(why({.url = "postgresql://u:%zzsecret@h/d"}), "is neither a URI of libpq"));
    BOOST_TEST(has(why({.url = "postgresql://u:secret@h/d?sslmode=on"}), "the sslmode `on`"));
    BOOST_TEST(has(why({.url = "postgresql://u:secret@h/d?target_session_attrs=standby"}),
                   "the target_session_attrs `standby`"));
    BOOST_TEST(has(why({.url = "postgresql://u:secret@h:no/d"}), "the port `no`"));
    BOOST_TEST(has(why({.url = "service=secret"}), "has a service"));
    BOOST_TEST(has(why({.url = "host=a,b port=1,2,3"}), "of different lengths"));
    for (auto const* const url : {"postgresql://u:%zzsecret@h/d", "postgresql://u:secret@[h/d"})
        BOOST_TEST(!has(why({.url = url}), "secret"));
    BOOST_TEST(
        why({.url = "host=db,/run/postgresql user=app", .connect_timeout = weir::forever}).empty());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(postgres_errors)

BOOST_AUTO_TEST_CASE(message_of_a_server_has_its_code) {
    auto const wrong = weir::postgres::detail::parse_connect_error(
        "connection to server at \"127.0.0.1\", port 5432 failed: FATAL:  28P01: password "
        "authentication failed for user \"app\"\nLOCATION:  auth_failed, auth.c:326\n");
    BOOST_TEST(weir::postgres::sqlstate_of(wrong.code) == "28P01");
    BOOST_TEST(wrong.text ==
               "connection to server at \"127.0.0.1\", port 5432 failed: FATAL:  password "
               "authentication failed for user \"app\"");
    auto const refused = weir::postgres::detail::parse_connect_error(
        "connection to server at \"db\", port 5432 failed: Connection refused\n\tIs the server "
        "running on that host and accepting TCP/IP connections?\n");
    BOOST_TEST(weir::postgres::sqlstate_of(refused.code) == "08001");
    BOOST_TEST(refused.text ==
               "connection to server at \"db\", port 5432 failed: Connection refused");
    auto const untrusted = weir::postgres::detail::parse_connect_error(
        "connection to server at \"db\", port 5432 failed: SSL error: certificate verify failed\n");
    BOOST_TEST(weir::postgres::sqlstate_of(untrusted.code) == "08004");
}

BOOST_AUTO_TEST_CASE(code_decides_about_an_outage) {
    struct row {
        char const* state;
        failure_kind kind;
    };
    for (auto const& [state, kind] :
         {row{"28P01", failure_kind::misconfigured}, row{"42P01", failure_kind::misconfigured},
          row{"42501", failure_kind::misconfigured}, row{"3D000", failure_kind::misconfigured},
          row{"08004", failure_kind::misconfigured}, row{"0A000", failure_kind::misconfigured},
          row{"57014", failure_kind::no_reply}, row{"40P01", failure_kind::no_reply},
          row{"25006", failure_kind::refused}, row{"53300", failure_kind::refused},
          row{"57P03", failure_kind::refused}, row{"08001", failure_kind::refused},
          row{"XX000", failure_kind::refused}}) {
        auto const code = weir::postgres::make_sqlstate(state);
        BOOST_TEST(weir::postgres::sqlstate_of(code) == state);
        BOOST_TEST(code.message() == std::string("SQLSTATE ") + state);
        BOOST_TEST((weir::postgres::detail::kind_of(code) == kind), state);
    }
    weir::error_code const late = boost::asio::error::timed_out;
    BOOST_TEST((weir::postgres::detail::kind_of(late) == failure_kind::no_reply));
    BOOST_TEST(weir::postgres::sqlstate_of(late) == "");
    BOOST_TEST(weir::postgres::sqlstate_of(weir::postgres::make_sqlstate("42p01")) == "XX000");
}

BOOST_AUTO_TEST_SUITE_END()
