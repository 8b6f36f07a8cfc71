#include <weir/policy/rate_tree.hpp>

#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/rate_tree_world.hpp"
#include "support/says.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using support::says;
using weir::rate_tree_node;
using weir::rate_tree_options;
using weir::time_point;
using weir::policy::rate_tree;

BOOST_AUTO_TEST_SUITE(rate_tree_options_)

namespace {

constexpr time_point noon{12h};

// Checks that no tree can be made of a text, and why.
void rejects(std::string const& text, std::string const& why) {
    BOOST_TEST_CONTEXT(text) {
        BOOST_CHECK_EXCEPTION(rate_tree(rate_tree_options::parse(text)), std::invalid_argument,
                              says("weir::rate_tree: " + why));
    }
}
void rejects(std::vector<rate_tree_node> nodes, std::string const& why) {
    BOOST_CHECK_EXCEPTION(rate_tree({.nodes = std::move(nodes)}), std::invalid_argument,
                          says("weir::rate_tree: " + why));
}

}  // namespace

// ---- Text

BOOST_AUTO_TEST_CASE(a_text_has_all_options) {
    std::string const text =
        "tree / 1000/1s burst 200, /acme 300/1s burst 60 most 600/1s burst "
        "120 weight 3, /acme/* most 20/1s "
        "keys 5000, /*/* most 5/1s burst 5";
    auto const options = rate_tree_options::parse("  " + text);
    BOOST_TEST(to_string(options) == text);
    auto const& acme = options.nodes.at(1);
    BOOST_TEST(acme.path == "/acme");
    BOOST_TEST(to_string(*acme.least) == "300/1s");
    BOOST_TEST(*acme.burst == 60);
    BOOST_TEST(to_string(*acme.most) == "600/1s");
    BOOST_TEST(*acme.most_burst == 120);
    BOOST_TEST(*acme.weight == 3);
    BOOST_TEST(!acme.keys);
    auto const& users = options.nodes.at(2);
    BOOST_TEST(!users.least);
    BOOST_TEST(!users.burst);
    BOOST_TEST(!users.most_burst);
    BOOST_TEST(*users.keys == 5'000);
    BOOST_TEST(*options.nodes.at(3).most_burst == 5);
}

BOOST_AUTO_TEST_CASE(all_keys_of_a_tree_have_a_bound) {
    std::string const text =
        "tree max_keys 3 / 10/1s burst 20, /* most 1/1s burst 1 keys 2, /*/* most 1/1s burst 1";
    auto const options = rate_tree_options::parse(text);
    BOOST_TEST(options.max_keys == 3);
    BOOST_TEST(to_string(options) == text);
    rate_tree tree(options);
    auto const a = tree.add(rate_tree::root()).value();
    auto const user = tree.add(a).value();
    auto const other = tree.add(a).value();
    BOOST_TEST(!tree.add(a).has_value());
    BOOST_TEST(!tree.add(rate_tree::root()).has_value());
    BOOST_TEST(tree.forget(other, noon));
    tree.configure(options, noon);
    auto const b = tree.add(rate_tree::root()).value();
    BOOST_TEST(!tree.add(b).has_value());
    BOOST_TEST(tree.forget(user, noon));
    BOOST_TEST(tree.add(b).has_value());
    rejects(std::vector<rate_tree_node>(32'769, {.path = "/"}),
            "the tree has 32769 nodes, but must have at most 32768");
    rejects("tree max_keys 0 / 1/1s", "max_keys is 0, but must be from 1 to 4294967296");
}

BOOST_AUTO_TEST_CASE(a_text_of_any_tree_can_be_read_again) {
    support::for_each_seed(1, 100, [](support::random_source& random) {
        auto const text = to_string(support::rate_tree_maker(random).make());
        BOOST_TEST(to_string(rate_tree_options::parse(text)) == text);
    });
}

BOOST_AUTO_TEST_CASE(a_wrong_text_is_rejected_with_its_column) {
    for (auto const& [text, why] : {
             std::pair{"", "column 1: expected tree, found the end of the text"},
             std::pair{"trees / 1/1s", "column 1: expected tree, found `trees`"},
             std::pair{"tree",
                       "column 5: expected a path such as /acme/*, found the end of the text"},
             std::pair{"tree a 1/1s", "column 6: expected a path such as /acme/*, found `a`"},
             std::pair{"tree / 1",
                       "column 9: expected a time, as in 1/1s, found the end of the text"},
             std::pair{"tree / 1/1s, ",
                       "column 14: expected a path such as /acme/*, found the end of the "
                       "text"},
             std::pair{"tree / 1/1s most 2/1s x", "column 23: expected burst, most, weight, keys, "
                                                  "a comma or the end of the text, found "
                                                  "`x`"},
             std::pair{"tree / 1/1s burst x", "column 19: expected a whole number, found `x`"},
         })
        BOOST_CHECK_EXCEPTION(
            static_cast<void>(rate_tree_options::parse(text)), std::invalid_argument,
            says("weir::rate_tree_options: `" + std::string(text) + "`, " + why));
}

BOOST_AUTO_TEST_CASE(bursts_have_defaults) {
    rate_tree tree(rate_tree_options::parse(
        "tree / 100/1s, /a 5/1s, /b 10/1s most 30/1s, /c 20/1s most 20/1s"));
    auto const stats = [&](char const* name) {
        return tree.stats(tree.find(rate_tree::root(), name).value(), noon);
    };
    BOOST_TEST(tree.stats(rate_tree::root(), noon).saved == 100);
    BOOST_TEST(stats("a").saved == 5);
    BOOST_TEST(stats("a").may_take == weir::max_amount);
    BOOST_TEST(stats("b").saved == 10);
    BOOST_TEST(stats("b").may_take == 30);
    BOOST_TEST(stats("c").may_take == 21);  // one more than it saves, so that it can borrow
    BOOST_TEST(!tree.find(rate_tree::root(), "d"));
}

// ---- Paths

BOOST_AUTO_TEST_CASE(each_node_has_one_path_and_a_parent) {
    rejects("tree /a 1/1s", "the tree has no root, but must have a node /");
    BOOST_CHECK_THROW(rate_tree(rate_tree_options{}), std::invalid_argument);
    rejects("tree / 9/1s, // 1/1s",
            "the path `//` is wrong: it must be / or names after slashes, such as /acme/*");
    rejects("tree / 9/1s, /a/ 1/1s",
            "the path `/a/` is wrong: it must be / or names after slashes, such as /acme/*");
    rejects("tree / 9/1s, /a* 1/1s",
            "the path `/a*` is wrong: it must be / or names after slashes, such as /acme/*");
    rejects({{.path = "/", .least = weir::rate(9, 1s)}, {.path = ""}},
            "the path `` is wrong: it must be / or names after slashes, such as /acme/*");
    rejects("tree / 9/1s, /a 1/1s, /a 2/1s", "/a has two nodes, but must have one");
    rejects("tree / 9/1s, /a/b 1/1s", "/a/b has no parent, but must have the node /a");
    rejects("tree / 9/1s, /* most 1/1s, /*/a most 1/1s",
            "/*/a has a name below `*`, but only `*` may be there");
    rejects("tree / 9/1s, /1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16 most 1/1s",
            "/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16 has 16 names, but must have at most 15");
}

// ---- Values

BOOST_AUTO_TEST_CASE(each_node_has_a_rate) {
    rejects("tree / most 1/1s", "/ must have a least, which is its most, and no other");
    rejects("tree / 9/1s most 9/1s", "/ must have a least, which is its most, and no other");
    rejects("tree / 9/1s, /a", "/a has neither a least nor a most, but must have one");
    rejects("tree / 0/1s", "permits of least of / is 0, but must be from 1 to 1000000000000000");
    rejects("tree / 2/1ns", "least of / is 2/1ns, but must be at most one permit per nanosecond");
    rejects("tree / 9/1s, /a most 3/2ns",
            "most of /a is 3/2ns, but must be at most one permit per nanosecond");
    rejects("tree / 9/1s burst 0", "burst of / is 0, but must be from 1 to 1000000000000000");
    rejects("tree / 9/1s, /a 4/1s most 3/1s",
            "most of /a is 3/1s, but must be at least its least, 4/1s");
    rejects("tree / 9/1s, /a 4/1s burst 4 most 4/1s burst 4",
            "most_burst of /a is 4, but must be from 5 to 1000000000000000");
    rejects("tree / 9/1s, /a 1/1s keys 5", "keys of /a is 5, but only `*` has keys");
    rejects("tree / 9/1s, /a 1/1s weight 33", "weight of /a is 33, but must be from 1 to 32");
    rejects("tree / 9/1s, /* most 1/1s keys 0", "keys of /* is 0, but must be from 1 to 1048576");
    rejects({{.path = "/", .least = weir::rate(9, 1s)},
             {.path = "/a", .burst = 5, .most = weir::rate(1, 1s)}},
            "burst of /a is 5, but the node has no least");
    rejects({{.path = "/", .least = weir::rate(9, 1s)},
             {.path = "/a", .least = weir::rate(1, 1s), .most_burst = 5}},
            "most_burst of /a is 5, but the node has no most");
}

BOOST_AUTO_TEST_CASE(periods_have_a_common_multiple) {
    rejects("tree / 1/876013h burst 2",
            "the period of /, 876013h, has too large a common multiple with the periods of other "
            "nodes: it must be at most 72057594037927936ns");
    rejects("tree / 1/1s, /a most 1/999983s, /b most 1/999979s",
            "the period of /b, 999979s, has too large a common multiple with the periods of other "
            "nodes: it must be at most 72057594037927936ns");
    // The same as 1/2305843009ns.
    rate_tree const tree(rate_tree_options::parse("tree / 4000000000/9223372036s burst 9"));
    BOOST_TEST(tree.capacity(rate_tree::root()) == 9);
}

BOOST_AUTO_TEST_CASE(a_node_has_what_its_children_are_promised) {
    rejects("tree / 9/1s burst 9, /a most 9/1s, /a/b 1/2s burst 1",
            "/a has no least, but must have at least 0.5/1s, the sum of its children");
    rejects("tree / 9/1s burst 9, /* 1/1s burst 1 keys 10",
            "least of / is 9/1s, but must be at least 10/1s, the sum of its children");
    rejects("tree / 9/1s burst 9, /* 1/1s burst 1 keys 9",
            "burst of / is 9, but must be at least 10, one more than the sum of its children");
    rejects("tree / 1/1us burst 2000000, /a 1/1h burst 1, /* 1/1h burst 1 keys 1048576",
            "/ has 1048577 children with a least, but must have at most 1048576");
    rate_tree const tree(rate_tree_options::parse("tree / 9/1s burst 10, /* 1/1s burst 1 keys 9"));
    BOOST_TEST(!tree.is_leaf(rate_tree::root()));
}

// ---- Changes

BOOST_AUTO_TEST_CASE(keys_with_a_least_are_not_promised_more) {
    rate_tree tree(rate_tree_options::parse("tree / 9/1s burst 20, /* 2/2s burst 3 keys 4"));
    auto const before = to_string(tree.options());
    for (auto const* keys : {"/* 3/2s burst 3 keys 4", "/* 1/1s burst 4 keys 4",
                             "/* 1/1s burst 3 keys 3", "/* 1/1s burst 1 keys 5"}) {
        auto const text = std::string("tree / 9/1s burst 30, ") + keys;
        BOOST_CHECK_EXCEPTION(
            tree.configure(rate_tree_options::parse(text), noon), std::invalid_argument,
            says("weir::rate_tree: /* has a least, but its least and burst must not be raised, nor "
                 "its "
                 "keys changed"));
        BOOST_TEST(to_string(tree.options()) == before);
    }
    tree.configure(rate_tree_options::parse("tree / 9/1s burst 20, /* 1/1s burst 3 keys 4"), noon);
    tree.configure(rate_tree_options::parse("tree / 9/1s burst 20, /* most 1/1s burst 3"), noon);
    BOOST_CHECK_THROW(tree.configure(rate_tree_options::parse(before), noon),
                      std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(fewer_keys_stop_further_ones) {
    rate_tree tree(rate_tree_options::parse("tree / 9/1s, /* most 1/1s keys 4"));
    auto const first = tree.add(rate_tree::root()).value();
    auto const second = tree.add(rate_tree::root()).value();
    tree.configure(rate_tree_options::parse("tree / 9/1s, /* most 1/1s keys 2"), noon);
    BOOST_TEST(!tree.add(rate_tree::root()));
    tree.configure(rate_tree_options::parse("tree / 9/1s, /* most 1/1s keys 1"), noon);
    BOOST_TEST(!tree.add(rate_tree::root()));
    BOOST_TEST(tree.forget(first, noon));
    BOOST_TEST(!tree.add(rate_tree::root()));
    BOOST_TEST(tree.forget(second, noon));
    BOOST_TEST(tree.add(rate_tree::root()).has_value());
}

BOOST_AUTO_TEST_CASE(numbers_of_removed_nodes_are_used_again) {
    rate_tree tree(rate_tree_options::parse("tree / 9/1s, /a most 1/1s, /b most 2/1s"));
    auto const b = tree.find(rate_tree::root(), "b").value();
    for (auto const* name : {"c", "d", "e", "f"}) {
        auto const text = std::string("tree / 9/1s, /b most 2/1s, /") + name + " most 1/1s";
        tree.configure(rate_tree_options::parse(text), noon);
        BOOST_TEST((tree.find(rate_tree::root(), "b") == b));
        BOOST_TEST(!tree.find(rate_tree::root(), "a"));
        auto const added = tree.find(rate_tree::root(), name);
        BOOST_TEST(added.value().kind <= 3);
        BOOST_TEST(tree.remaining(*added, noon) == 1);
    }
}

BOOST_AUTO_TEST_SUITE_END()
