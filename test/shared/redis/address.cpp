#include "weir/redis/address.hpp"

#include "support/says.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <stdexcept>
#include <string>
#include <string_view>

using weir::redis::detail::address;

namespace {

address only(std::string_view url) {
    auto const all = address::parse(url);
    BOOST_REQUIRE(all.size() == 1U);
    return all.front();
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
    auto const all = address::parse("redis://me:a%2Cb,c@a,b:6380,[::1]:7,10.0.0.1/3");
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

BOOST_DATA_TEST_CASE(
    nonsense_is_rejected_and_not_repeated,
    boost::unit_test::data::make({
        "",
        "localhost",
        "rediss://host",
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
    BOOST_CHECK_EXCEPTION(address::parse(url), std::invalid_argument, [](auto const& e) {
        std::string_view const what = e.what();
        return what.starts_with("weir::redis: the URL ") && what.find("secret") == what.npos;
    });
}

BOOST_AUTO_TEST_SUITE_END()
