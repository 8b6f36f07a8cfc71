#include "admin/make_names_unique.hpp"

#include "admin/state.hpp"
#include "admin/stats.hpp"

#include <boost/test/unit_test.hpp>

#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct named {
    std::string name;
};

using names = std::vector<std::string>;

names told_apart(names const& all) {
    std::vector<named> each;
    for (auto const& name : all)
        each.push_back({name});
    admin::make_names_unique(each);
    names found;
    for (auto const& one : each)
        found.push_back(one.name);
    return found;
}

// The sample lines of the Prometheus text, without their values.
names series_of(admin::state const& s) {
    names found;
    std::istringstream text(to_metrics(s));
    for (std::string line; std::getline(text, line);)
        if (!line.starts_with('#'))
            found.push_back(line.substr(0, line.rfind(' ')));
    return found;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(equal_names)

BOOST_AUTO_TEST_CASE(become_unique) {
    BOOST_TEST(told_apart({}) == names{}, boost::test_tools::per_element());
    struct row {
        names given, found;
    };
    for (auto const& [given, found] :
         {row{{"a", "b"}, {"a", "b"}}, row{{"a", "a"}, {"a", "a#2"}},
          row{{"a", "a", "a", "a"}, {"a", "a#2", "a#3", "a#4"}},
          row{{"a", "b", "a", "b", "a"}, {"a", "b", "a#2", "b#2", "a#3"}},
          row{{"a", "a", "a#2"}, {"a", "a#3", "a#2"}}, row{{"a#2", "a", "a"}, {"a#2", "a", "a#3"}},
          row{{"a", "a#2", "a", "a#2", "a"}, {"a", "a#2", "a#3", "a#2#2", "a#4"}},
          row{{"a", "a", "a#2#2", "a#2", "a#2"}, {"a", "a#3", "a#2#2", "a#2", "a#2#3"}},
          row{{"", "", ""}, {"", "#2", "#3"}}})
        BOOST_TEST(told_apart(given) == found, boost::test_tools::per_element());
}

// The exposition format forbids two samples with the same name and labels.
BOOST_AUTO_TEST_CASE(cause_no_duplicate_series) {
    admin::state s;
    auto& shop = s.upstreams.emplace_back();
    shop.name = "shop";
    for (int i = 0; i != 3; ++i)
        shop.servers.emplace_back().name = "127.0.0.1:9000";
    admin::make_names_unique(shop.servers);
    for (auto const* const name : {"a", "a#2", "a", "a"})
        s.limits.emplace_back().name = name;
    admin::make_names_unique(s.limits);
    auto const all = series_of(s);
    BOOST_TEST(all.size() > 100U);
    BOOST_TEST(std::set<std::string>(all.begin(), all.end()).size() == all.size());
}

BOOST_AUTO_TEST_SUITE_END()
