#include "config/configuration.hpp"
#include "config/read.hpp"
#include "problem.hpp"

#include <boost/test/unit_test.hpp>

#include <string>
#include <string_view>
#include <vector>

// Files of this folder are compiled together.
namespace listeners_with_tls {
namespace {

std::string const shop = "[[upstream]]\nname = 'shop'\nservers = '127.0.0.1:1'\n";
std::string const listen = "[[listen]]\naddress = '127.0.0.1:2'\n";
std::string const tls = "tls = [{ certificate = 'a.pem', key = 'a.key' }]\n";
std::string const trusting = "[clients]\ntrusted = '10.0.0.1'\n" + shop;

// A configuration with a limit of the handshakes.
std::string limited(std::string_view limit) {
    return shop + listen + tls + "handshake_limits = 'one'\n[[limit]]\nname = 'one'\n" +
           std::string(limit);
}
bool cannot_limit(std::string_view limit, std::string const& why) {
    return is_refused(limited(limit),
                      "listen `127.0.0.1:2`: `one` cannot limit handshakes: " + why);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_listener_with_tls)

BOOST_AUTO_TEST_CASE(limits_handshakes_by_client_or_all_together) {
    for (auto const* const limit : {"rule = '3/1s'\nkey = 'client'", "rule = '3/1s'",
                                    "rule = '3 seats'", "rule = '3/1s'\ncost = 2"}) {
        auto const c = config::read(limited(limit), "f");
        BOOST_TEST(c.listeners.front().handshake_limits == std::vector<std::string>{"one"});
    }
    BOOST_TEST(cannot_limit("rule = '3/1s'\nkey = 'header X'", "its key is not `client`"));
    BOOST_TEST(cannot_limit("rule = '3/1s'\ncost = 'bytes'", "its cost is not a number"));
    BOOST_TEST(cannot_limit("rule = '3/1s'\ncount = '401'", "it counts responses"));
    BOOST_TEST(cannot_limit(
        "rule = '3/1h penalty first 1min longest 1h'\ncount = '401'", "it is a penalty"));
    BOOST_TEST(cannot_limit("bandwidth = '1MB/s'", "it limits bytes"));
    BOOST_TEST(cannot_limit(
        "key = 'header X'\n[limit.tree]\n'/' = '10/1s'\n'/*' = 'most 5/1s'", "it is a tree"));
    BOOST_TEST(
        is_refused(shop + listen + tls + "handshake_limits = 'one'\n", "unknown limit `one`"));
    BOOST_TEST(is_refused(
        shop + listen + "handshake_limits = 'one'\n[[limit]]\nname = 'one'\nrule = '3/1s'",
        "`handshake_limits` requires `tls`"));
}

BOOST_AUTO_TEST_CASE(does_not_redirect_to_itself) {
    auto const c = config::read(shop + listen + "https_port = 8443", "f");
    BOOST_TEST(c.listeners.front().https_port.value() == 8443);
    auto const excludes = [](std::string const& other, std::string const& more) {
        return is_refused(trusting + listen + "https_port = 443\n" + more,
                          "`https_port` and `" + other + "` exclude each other");
    };
    BOOST_TEST(excludes("tls", tls));
    BOOST_TEST(excludes("check", "[listen.check]\n[[route]]\ncheck = true\n"));
    BOOST_TEST(excludes("tcp", "tcp = { upstream = 'shop' }\n"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace listeners_with_tls
