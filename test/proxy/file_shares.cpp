// The division of the files that the process may open.

#include "proxy/file_shares.hpp"

#include <boost/test/unit_test.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

// Files of this folder are compiled together.
namespace shares_of_files {
namespace {

std::int64_t files() {
    rlimit all{};
    BOOST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &all) == 0);
    constexpr rlim_t most = std::numeric_limits<std::int32_t>::max();
    return static_cast<std::int64_t>(std::min(all.rlim_max, most));
}

config::configuration with(std::vector<std::optional<std::int64_t>> const& connections) {
    config::configuration c;
    c.threads = 1;
    auto& u = c.upstreams.emplace_back();
    for (auto const& n : connections)
        u.servers.push_back(
            {.address = config::unix_address{"/a"}, .seats = {}, .max_connections = n});
    return c;
}

std::string wrong(config::configuration const& c) {
    try {
        static_cast<void>(proxy::share_out_files(c));
    } catch (std::runtime_error const& e) {
        return e.what();
    }
    return "nothing";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(files_of_the_process)

BOOST_AUTO_TEST_CASE(suffice_for_all_shares) {
    for (auto const& c : {with({{}}), with({{}, {}, {}}), with({{10}}), with({{10}, {}}),
                          with({{1'000'000'000}}), with({{1'000'000'000}, {}})}) {
        auto const shares = proxy::share_out_files(c);
        std::int64_t upstream = 0;
        for (auto const& s : c.upstreams[0].servers)
            if (!s.max_connections)
                upstream += shares.upstream;
        BOOST_TEST(shares.clients > 0);
        BOOST_TEST(shares.clients + shares.admin + upstream < files());
    }
}

// A server gets the number of its connections or seats; the clients get the rest.
BOOST_AUTO_TEST_CASE(unused_by_servers_are_for_clients) {
    auto const ten = proxy::share_out_files(with({{10}}));
    auto const twenty = proxy::share_out_files(with({{10}, {10}}));
    BOOST_TEST(ten.clients - twenty.clients == 10);
    auto const unsaid = proxy::share_out_files(with({{}}));
    BOOST_TEST(unsaid.clients < ten.clients);
    BOOST_TEST(unsaid.upstream >= unsaid.clients - 1);
    BOOST_TEST(unsaid.upstream <= unsaid.clients + 1);
    auto seats = with({{}});
    seats.upstreams[0].servers[0].seats = 10;
    BOOST_TEST(proxy::share_out_files(seats).clients == ten.clients);
}

BOOST_AUTO_TEST_CASE(are_divided_among_servers_without_a_number) {
    auto const one = proxy::share_out_files(with({{}}));
    auto const four = proxy::share_out_files(with({{}, {}, {}, {}}));
    BOOST_TEST(four.clients == one.clients);
    BOOST_TEST(four.upstream == one.upstream / 4);
}

BOOST_AUTO_TEST_CASE(limit_the_connections_of_clients) {
    auto c = with({{10}});
    auto const most = proxy::share_out_files(c).clients;
    c.clients.max_connections = most;
    BOOST_TEST(proxy::share_out_files(c).clients == most);
    c.clients.max_connections = 5;
    BOOST_TEST(proxy::share_out_files(c).clients == 5);
    c.clients.max_connections = most + 1;
    BOOST_TEST(wrong(c).starts_with(
        "`max_connections` is " + std::to_string(most + 1) + "; at most " + std::to_string(most) +
        " fit into the limit of "));
}

BOOST_AUTO_TEST_CASE(are_reserved_for_the_admin_page_only_if_it_exists) {
    auto c = with({{10}});
    auto const with_page = proxy::share_out_files(c);
    BOOST_TEST(with_page.admin > 0);
    c.admin.address.reset();
    auto const without = proxy::share_out_files(c);
    BOOST_TEST(without.admin == 0);
    BOOST_TEST(without.clients == with_page.clients + with_page.admin);
}

BOOST_AUTO_TEST_CASE(are_reserved_for_the_processes_of_an_agent) {
    auto c = with({{10}});
    auto const without = proxy::share_out_files(c);
    BOOST_TEST(without.agent == 0);
    c.agent.emplace().options.max_connections = 5;
    auto const few = proxy::share_out_files(c);
    BOOST_TEST(few.agent == 5);
    BOOST_TEST(few.clients == without.clients - 5);
    c.agent->options.max_connections = 100'000'000;
    BOOST_TEST(proxy::share_out_files(c).agent == files() / 8);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace shares_of_files
