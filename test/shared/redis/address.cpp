#include "weir/redis/address.hpp"

#include "support/says.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <stdexcept>
#include <string>
#include <string_view>

using weir::redis::detail::address;
using weir::redis::detail::destination;

namespace {

address only(std::string_view url) {
    auto const to = destination::parse(url);
    BOOST_REQUIRE(to.servers.size() == 1U);
    BOOST_TEST(!to.tls);
    BOOST_TEST(to.primary_name == "");
    return to.servers.front();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(redis_address)

BOOST_AUTO_TEST_CASE(all_parts_but_the_host_are_optional) {
    auto const a = only("redis://cache");
    BOOST_TEST(a.host == "cache");
    BOOST_TEST(a.port == 6379);
    BOOST_TEST(a.user.empty());
    BOOST_TEST(a.password.empty());
    BOOST_TEST(a.database == 0u);
    BOOST_TEST(a.path.empty());
}

BOOST_AUTO_TEST_CASE(all_parts_may_be_given) {
    auto const a = only("redis://me:se%40cret%2f@10.0.0.5:6380/12");
    BOOST_TEST(a.host == "10.0.0.5");
    BOOST_TEST(a.port == 6380);
    BOOST_TEST(a.user == "me");
    BOOST_TEST(a.password == "se@cret/");
    BOOST_TEST(a.database == 12u);
}

BOOST_AUTO_TEST_CASE(password_may_be_without_a_user) {
    auto const a = only("redis://:pass@[::1]:6380/");
    BOOST_TEST(a.host == "::1");
    BOOST_TEST(a.port == 6380);
    BOOST_TEST(a.user.empty());
    BOOST_TEST(a.password == "pass");
    BOOST_TEST(a.database == 0u);
    BOOST_TEST(only("redis://[fe80::1]").host == "fe80::1");
    BOOST_TEST(only("redis://a:b:c@d@host").password == "b:c@d");
}

BOOST_AUTO_TEST_CASE(several_servers_share_login_and_database) {
    auto const all = destination::parse("redis://me:a%2Cb,c@a,b:6380,[::1]:7,10.0.0.1/3").servers;
    BOOST_REQUIRE(all.size() == 4U);
    BOOST_TEST(all[0].host == "a");
    BOOST_TEST(all[0].port == 6379);
    BOOST_TEST(all[1].host == "b");
    BOOST_TEST(all[1].port == 6380);
    BOOST_TEST(all[2].host == "::1");
    BOOST_TEST(all[2].port == 7);
    BOOST_TEST(all[3].host == "10.0.0.1");
    for (auto const& one : all) {
        BOOST_TEST(one.user == "me");
        BOOST_TEST(one.password == "a,b,c");
        BOOST_TEST(one.database == 3U);
    }
}

BOOST_AUTO_TEST_CASE(local_socket) {
    BOOST_TEST(only("unix:/run/redis.sock").path == "/run/redis.sock");
    auto const a = only("unix://me:pass@/run/a%20b?db=3");
    BOOST_TEST(a.path == "/run/a b");
    BOOST_TEST(a.user == "me");
    BOOST_TEST(a.password == "pass");
    BOOST_TEST(a.database == 3u);
}

BOOST_AUTO_TEST_CASE(certificates_are_checked_unless_the_url_says_otherwise) {
    auto const usual = destination::parse("rediss://me:pass@a,b:6380/1");
    BOOST_REQUIRE(usual.tls.has_value());
    BOOST_TEST(!usual.tls->is_insecure);
    BOOST_TEST(usual.tls->authorities == "");
    BOOST_TEST(usual.tls->certificate == "");
    BOOST_REQUIRE(usual.servers.size() == 2U);
    BOOST_TEST(usual.servers[1].host == "b");
    BOOST_TEST(usual.servers[1].port == 6380);
    BOOST_TEST(usual.servers[1].database == 1U);

    auto const own = destination::parse(
        "rediss://a?authorities=/etc/ca%26b.pem&certificate=c.pem&key=/run/k%20.pem");
    BOOST_REQUIRE(own.tls.has_value());
    BOOST_TEST(!own.tls->is_insecure);
    BOOST_TEST(own.tls->authorities == "/etc/ca&b.pem");
    BOOST_TEST(own.tls->certificate == "c.pem");
    BOOST_TEST(own.tls->key == "/run/k .pem");

    auto const any = destination::parse("rediss://a/0?insecure");
    BOOST_REQUIRE(any.tls.has_value());
    BOOST_TEST(any.tls->is_insecure);
}

BOOST_AUTO_TEST_CASE(sentinels_have_a_login_of_their_own) {
    auto const to = destination::parse("redis+sentinel://me:pass@a,b:7,[::1]/my%2Fmaster/3");
    BOOST_TEST(!to.tls);
    BOOST_TEST(to.primary_name == "my/master");
    BOOST_TEST(to.primary.user == "me");
    BOOST_TEST(to.primary.password == "pass");
    BOOST_TEST(to.primary.database == 3U);
    BOOST_REQUIRE(to.servers.size() == 3U);
    BOOST_TEST(to.servers[0].host == "a");
    BOOST_TEST(to.servers[0].port == 26379);
    BOOST_TEST(to.servers[1].port == 7);
    BOOST_TEST(to.servers[2].host == "::1");
    BOOST_TEST(to.servers[2].to_string() == "[::1]:26379");
    for (auto const& one : to.servers) {
        BOOST_TEST(one.user == "");
        BOOST_TEST(one.password == "");
        BOOST_TEST(one.database == 0U);
    }

    auto const both = destination::parse(
        "rediss+sentinel://a/m?sentinel_user=you&sentinel_password=se%40cret&insecure");
    BOOST_TEST(both.tls.has_value());
    BOOST_TEST(both.primary_name == "m");
    BOOST_TEST(both.primary.user == "");
    BOOST_TEST(both.primary.password == "");
    BOOST_TEST(both.servers[0].user == "you");
    BOOST_TEST(both.servers[0].password == "se@cret");
}

BOOST_DATA_TEST_CASE(
    nonsense_is_rejected_and_not_repeated,
    boost::unit_test::data::make({
        "",
        "localhost",
        "https://host",
        "redis:secret",
        "redis",
        "redis://host?authorities=secret",
        "redis://host?insecure",
        "redis://host/1?secret=1",
        "rediss://",
        "rediss://host?secret",
        "rediss://host?authorities=secret&insecure",
        "rediss://host?authorities=secret&authorities=secret",
        "rediss://host?authorities=",
        "rediss://host?authorities",
        "rediss://host?authorities=secret%00",
        "rediss://host?insecure=secret",
        "rediss://host?certificate=secret",
        "rediss://host?key=secret",
        "rediss://host?sentinel_password=secret",
        "redis+sentinel://secret",
        "redis+sentinel://secret/",
        "redis+sentinel://secret//1",
        "redis+sentinel:///secret",
        "redis+sentinel://a/secret/x",
        "redis+sentinel://a/secret?sentinel_user=secret",
        "redis+sentinel://a/secret?insecure",
        "redis+tls://secret",
        "redis://",
        "redis://secret@host",
        "redis://secret:@host",
        "redis://host:0",
        "redis://a,,secret",
        "redis://secret,",
        "redis://,secret",
        "redis://a,secret:0",
        "redis://a/secret,b",
        "redis://host:65536",
        "redis://host:secret",
        "redis://host/secret",
        "redis://host/-1",
        "redis://:secret%4@host",
        "redis://:secret%zz@host",
        "redis://[::1]secret",
        "redis://host?db=secret",
        "redis://host#secret",
        "redis://host%00secret",
        "unix:secret",
        "unix:",
        "unix:/secret?database=1",
        "unix:/secret?db=x",
        "unix:/run%00secret",
        "unix:/secret/of/a/hundred/and/eight/bytes/or/more/"
        "ppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp",
    }),
    url) {
    BOOST_CHECK_EXCEPTION(destination::parse(url), std::invalid_argument, [](auto const& e) {
        std::string_view const what = e.what();
        return what.starts_with("weir::redis: the URL ") && what.find("secret") == what.npos;
    });
}

BOOST_AUTO_TEST_SUITE_END()
