// The agent of a configuration, beside and without a proxy.

#include "config/configuration.hpp"
#include "config/read.hpp"
#include "config/write.hpp"
#include "problem.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <string>

// Files of this folder are compiled together.
namespace agent_of_configuration {
namespace {

using namespace std::chrono_literals;

std::string const redis = "[[store]]\nname = \"e\"\nurl = \"redis://a\"\n";
std::string const agent = redis + "[agent]\npath = \"/a\"\nstore = \"e\"\n";
std::string const upstream = "[[upstream]]\nname = \"shop\"\nservers = \"127.0.0.1:1\"\n";

}  // namespace

BOOST_AUTO_TEST_SUITE(agent_of_a_configuration)

BOOST_AUTO_TEST_CASE(needs_neither_an_upstream_nor_a_listener) {
    auto const c = config::read(agent, "f");
    BOOST_TEST(c.listeners.empty());
    BOOST_TEST(c.routes.empty());
    BOOST_TEST(c.warnings.empty());
    BOOST_REQUIRE(c.agent.has_value());
    BOOST_TEST(c.agent->options.path == "/a");
    BOOST_TEST(c.agent->store.url == "redis://a");
}

BOOST_AUTO_TEST_CASE(has_the_values_of_the_file) {
    auto const c = config::read(
        agent + "mode = \"0660\"\nlease = \"50ms\"\nmax_connections = 5\nmax_limits = 7\n", "f");
    auto const& o = c.agent.value().options;
    BOOST_TEST(o.mode == 0660U);
    BOOST_TEST((o.lease == 50ms));
    BOOST_TEST(o.max_connections == 5);
    BOOST_TEST(o.max_limits == 7);
    BOOST_TEST((config::read(config::write(c), "f").agent == c.agent));
}

BOOST_AUTO_TEST_CASE(is_one_part_of_a_proxy) {
    auto const c = config::read(agent + upstream, "f");
    BOOST_TEST(c.listeners.size() == 1U);
    BOOST_TEST(c.routes.size() == 1U);
    BOOST_TEST(c.warnings.empty());
    BOOST_TEST(c.agent.has_value());
}

// Otherwise the limit, or the listener, would have no effect.
BOOST_AUTO_TEST_CASE(does_not_replace_an_upstream_that_is_missing) {
    for (std::string const more : {"[[limit]]\nname = \"a\"\nrule = \"1/1s\"\n",
                                   "[[limit]]\nname = \"a\"\nbandwidth = { down = \"1MB/s\" }\n",
                                   "[[listen]]\naddress = \"127.0.0.1:1\"\n"})
        BOOST_TEST(is_refused(agent + more, "missing [[upstream]]"), more);
    BOOST_TEST(is_refused(redis, "missing [[upstream]]"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace agent_of_configuration
