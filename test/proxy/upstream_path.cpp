// The path that the upstream gets, in the place of the path of the route.

#include "local_proxy.hpp"

#include <boost/test/unit_test.hpp>

#include <fstream>
#include <string>

// Files of this folder are compiled together.
namespace paths_of_an_upstream {
namespace {

using support::local_proxy;

struct prefixes : local_proxy {
    explicit prefixes(tool::log_file* log = nullptr)
        : local_proxy(R"(
[[upstream]]
name = "a"
servers = ["UPSTREAM"]

[[limit]]
name = "tenant"
rule = "1/60s"
key = "path 2"
queue = "patience 0s"

[[route]]
path = "/api"
upstream = "a"
upstream_path = "/"

[[route]]
path = "/old/"
upstream = "a"
upstream_path = "/new/v2"

[[route]]
path = "/limited"
upstream = "a"
upstream_path = "/"
limits = ["tenant"]

[[route]]
path = "/chat"
upstream = "a"
upstream_path = "/socket"
upgrade = { to = "chat" }

[[route]]
path = "/as-it-is"
upstream = "a"
)",
                      log) {}

    // The target that the upstream gets; the status if it gets no request.
    std::string of(std::string const& target, std::string const& fields = "") {
        upstream.requests.clear();
        auto client = connect();
        auto const status =
            ask(client, "GET " + target + " HTTP/1.1\r\nHost: test\r\n" + fields + "\r\n");
        if (upstream.requests.empty())
            return std::to_string(status);
        auto const& request = upstream.requests.back();
        auto const begin = request.find(' ') + 1;
        return request.substr(begin, request.find(' ', begin) - begin);
    }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(the_path_for_an_upstream)

BOOST_FIXTURE_TEST_CASE(begins_with_another_prefix, prefixes) {
    BOOST_TEST(of("/api/x/y?a=/api/b") == "/x/y?a=/api/b");
    BOOST_TEST(of("/api") == "/");
    BOOST_TEST(of("/api/") == "/");
    BOOST_TEST(of("/api?a") == "/?a");
    BOOST_TEST(of("/%61pi;v=1/%78/") == "/%78/");
    BOOST_TEST(of("http://test/api/x") == "/x");
    BOOST_TEST(of("/old") == "/new/v2");
    BOOST_TEST(of("/old/x") == "/new/v2/x");
    BOOST_TEST(of("/as-it-is/../as-it-is//x") == "/as-it-is/../as-it-is//x");
}

BOOST_FIXTURE_TEST_CASE(is_not_changed_for_other_paths, prefixes) {
    BOOST_TEST(of("/apix") == "404");
    BOOST_TEST(of("/ap") == "404");
    BOOST_TEST(of("/") == "404");
    BOOST_TEST(of("/api/../x") == "404");
}

BOOST_FIXTURE_TEST_CASE(has_no_way_out_of_the_prefix, prefixes) {
    BOOST_TEST(of("/old/a/../../old/b") == "/new/v2/b");
    BOOST_TEST(of("/old/%2e%2e/old/b") == "/new/v2/b");
    BOOST_TEST(of("/api//other.example/x") == "/other.example/x");
}

BOOST_FIXTURE_TEST_CASE(is_not_the_one_that_limits_use, prefixes) {
    BOOST_TEST(of("/limited/a/1") == "/a/1");
    BOOST_TEST(of("/limited/a/2") == "429");
    BOOST_TEST(of("/limited/b/1") == "/b/1");
}

BOOST_FIXTURE_TEST_CASE(is_that_of_an_upgrade, prefixes) {
    BOOST_TEST(of("/chat/1", "Connection: upgrade\r\nUpgrade: chat\r\n") == "/socket/1");
}

BOOST_AUTO_TEST_CASE(is_not_the_one_in_the_access_log) {
    support::temporary_folder const folder("weir-path-");
    tool::log_file log((folder / "log").string());
    prefixes proxy(&log);
    BOOST_TEST(proxy.of("/api/x") == "/x");
    log.end();
    std::ifstream in(folder / "log");
    std::string line;
    std::getline(in, line);
    BOOST_TEST(line.find("\"GET /api/x HTTP/1.1\"") != line.npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace paths_of_an_upstream
