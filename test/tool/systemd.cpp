// Sockets that a service manager opened.

#include "tool/systemd.hpp"

#include <boost/test/unit_test.hpp>

#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

// Files of this folder are compiled together.
namespace sockets_of_a_manager {
namespace {

using sockets = std::vector<std::pair<std::string, int>>;

sockets inherited(std::string const& pid, std::string const& count, char const* names) {
    ::setenv("LISTEN_PID", pid.c_str(), 1);
    ::setenv("LISTEN_FDS", count.c_str(), 1);
    if (names)
        ::setenv("LISTEN_FDNAMES", names, 1);
    auto found = tool::inherited_sockets();
    for (char const* const name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"})
        ::unsetenv(name);
    return found;
}
sockets mine(std::string const& count, char const* names = nullptr) {
    return inherited(std::to_string(::getpid()), count, names);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(inherited_sockets)

BOOST_AUTO_TEST_CASE(begin_at_3_and_have_names) {
    BOOST_TEST((mine("2", "web:admin") == sockets{{"web", 3}, {"admin", 4}}));
    BOOST_TEST((mine("3", "web::web") == sockets{{"web", 3}, {"unknown", 4}, {"web", 5}}));
    BOOST_TEST((mine("2", "web") == sockets{{"web", 3}, {"unknown", 4}}));
    BOOST_TEST((mine("1", "web:more") == sockets{{"web", 3}}));
    BOOST_TEST((mine("1") == sockets{{"unknown", 3}}));
}

BOOST_AUTO_TEST_CASE(are_for_the_named_process_only) {
    BOOST_TEST(tool::inherited_sockets().empty());
    BOOST_TEST(inherited(std::to_string(::getppid()), "1", "web").empty());
    BOOST_TEST(inherited("", "1", "web").empty());
    for (char const* const count : {"", "0", "x", "1025", "-1"})
        BOOST_TEST(mine(count, "web").empty(), count);
    BOOST_TEST(mine("1024").size() == 1024u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sockets_of_a_manager
