#include <weir/queue_options.hpp>

#include "support/printing.hpp"
#include "support/says.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

using namespace std::chrono_literals;
using support::says;
using weir::queue_options;
using weir::validate;

// g++ 12 destroys temporaries of non-trivial types twice in the operand of a `co_await`.
static_assert(std::is_trivially_destructible_v<queue_options>);
static_assert(std::is_trivially_copyable_v<queue_options>);

BOOST_AUTO_TEST_SUITE(the_options_of_a_queue)

BOOST_AUTO_TEST_CASE(have_sensible_defaults) {
    queue_options const defaults;
    BOOST_TEST(defaults.max_waiting == 1024);
    BOOST_TEST((defaults.full == weir::when_full::reject_newest));
    BOOST_TEST(defaults.max_waiting_permits == weir::unlimited);
    BOOST_TEST(defaults.max_expected_wait.length_or(0s) == weir::forever);
    BOOST_TEST((defaults.order == weir::queue_order::fifo));
    BOOST_TEST(defaults.target == 5ms);
    BOOST_TEST(defaults.interval == 100ms);
    BOOST_TEST(defaults.ageing == 1s);
    BOOST_TEST(defaults.tolerance == 1ms);
    BOOST_TEST(defaults.jitter == 0s);
    BOOST_TEST(defaults.patience.is_set());
    BOOST_TEST(defaults.patience.length_or(0s) == weir::forever);
    BOOST_CHECK_NO_THROW(validate(defaults));
}

BOOST_AUTO_TEST_CASE(can_be_set_by_name) {
    queue_options const options{
        .max_waiting = 3, .full = weir::when_full::evict_oldest, .patience = 2s};
    BOOST_TEST(options.max_waiting == 3);
    BOOST_TEST(options.tolerance == 1ms);
    BOOST_TEST(options.patience.length_or(0s) == 2s);
}

BOOST_AUTO_TEST_CASE(may_have_the_values_of_their_bounds) {
    BOOST_CHECK_NO_THROW(validate({.max_waiting = 0}));
    BOOST_CHECK_NO_THROW(validate({.max_waiting = weir::unlimited}));
    BOOST_CHECK_NO_THROW(validate({.full = weir::when_full::evict_oldest}));
    BOOST_CHECK_NO_THROW(validate({.max_waiting_permits = 1}));
    BOOST_CHECK_NO_THROW(validate({.max_expected_wait = 0s}));
    BOOST_CHECK_NO_THROW(validate({.order = weir::queue_order::codel}));
    BOOST_CHECK_NO_THROW(validate({.order = weir::queue_order::fair}));
    BOOST_CHECK_NO_THROW(validate({.ageing = 1ns}));
    BOOST_CHECK_NO_THROW(validate({.ageing = 1h}));
    BOOST_CHECK_NO_THROW(validate({.target = 1ns, .interval = 1h}));
    BOOST_CHECK_NO_THROW(validate({.target = 1h, .interval = 1ns}));
    BOOST_CHECK_NO_THROW(validate({.tolerance = 0s}));
    BOOST_CHECK_NO_THROW(validate({.tolerance = 1h}));
    BOOST_CHECK_NO_THROW(validate({.patience = {}}));
    BOOST_CHECK_NO_THROW(validate({.patience = -1s}));
    BOOST_CHECK_NO_THROW(validate({.patience = std::chrono::hours::max()}));
}

BOOST_AUTO_TEST_CASE(that_are_out_of_bounds_throw_with_name_and_value) {
    BOOST_CHECK_EXCEPTION(validate({.max_waiting = -1}), std::invalid_argument,
                          says("weir::queue_options: max_waiting is -1, but must be at least 0"));
    BOOST_CHECK_EXCEPTION(
        validate({.max_waiting_permits = 0}), std::invalid_argument,
        says("weir::queue_options: max_waiting_permits is 0, but must be at least 1"));
    BOOST_CHECK_EXCEPTION(validate({.target = 0s}), std::invalid_argument,
                          says("weir::queue_options: target is 0s, but must be from 1ns to 1h"));
    BOOST_CHECK_EXCEPTION(
        validate({.interval = 1h + 1ns}), std::invalid_argument,
        says("weir::queue_options: interval is 3600000000001ns, but must be from 1ns to 1h"));
    BOOST_CHECK_EXCEPTION(validate({.ageing = 0s}), std::invalid_argument,
                          says("weir::queue_options: ageing is 0s, but must be from 1ns to 1h"));
    BOOST_CHECK_NO_THROW(validate({.jitter = 1h}));
    BOOST_CHECK_EXCEPTION(validate({.jitter = -1ns}), std::invalid_argument,
                          says("weir::queue_options: jitter is -1ns, but must be from 0s to 1h"));
    BOOST_CHECK_EXCEPTION(
        validate({.tolerance = -1ns}), std::invalid_argument,
        says("weir::queue_options: tolerance is -1ns, but must be from 0s to 1h"));
    BOOST_CHECK_EXCEPTION(
        validate({.tolerance = 1h + 1ns}), std::invalid_argument,
        says("weir::queue_options: tolerance is 3600000000001ns, but must be from 0s to 1h"));
}

BOOST_AUTO_TEST_CASE(have_valid_partitions) {
    BOOST_CHECK_NO_THROW(validate({.partitions = {{"a", 100}}}));
    BOOST_CHECK_NO_THROW(validate({.partitions = {{"of_14_letters_", 0}, {"b", 1}}}));
    BOOST_CHECK_EXCEPTION(validate({.partitions = {{"a", 60}, {"b", 41}}}), std::invalid_argument,
                          says("weir::queue_options: the partitions add up to 101 per cent; the "
                               "maximum is 100"));
    BOOST_CHECK_EXCEPTION(
        validate({.partitions = {{"a", 1}, {"b", 2}, {"a", 3}}}), std::invalid_argument,
        says("weir::queue_options: duplicate partition `a`"));
    for (std::string const name : {"", "a b", "a:b", "a,b"})
        BOOST_CHECK_EXCEPTION(validate({.partitions = {{name, 1}}}), std::invalid_argument,
                              says("weir::queue_options: invalid partition name `" + name +
                                   "`: use letters, digits, `_`, `-` and `.`"));
    BOOST_CHECK_EXCEPTION(
        weir::partition("of_15_letters__", 1), std::invalid_argument,
        says("weir::partition: the name `of_15_letters__` has more than 14 characters"));
    BOOST_CHECK_EXCEPTION(weir::partition("a", 101), std::invalid_argument,
                          says("weir::partition: percent is 101, but must be from 0 to 100"));
    BOOST_CHECK_EXCEPTION(weir::partition("a", -1), std::invalid_argument,
                          says("weir::partition: percent is -1, but must be from 0 to 100"));
    weir::partition const p("p", 1);
    BOOST_CHECK_EXCEPTION((weir::partitions{p, p, p, p, p, p, p, p, p}), std::invalid_argument,
                          says("weir::partitions: more than 8 partitions"));
}

BOOST_AUTO_TEST_CASE(have_a_valid_name) {
    BOOST_TEST(queue_options().name.empty());
    BOOST_CHECK_NO_THROW(validate({.name = "of_15_letters__"}));
    BOOST_CHECK_NO_THROW(validate({.name = std::string("a.b-C")}));
    for (std::string const name : {"a b", "a:b", "\n"})
        BOOST_CHECK_EXCEPTION(validate({.name = name}), std::invalid_argument,
                              says("weir::queue_options: invalid name `" + name +
                                   "`: use letters, digits, `_`, `-` and `.`"));
    BOOST_CHECK_EXCEPTION(
        weir::limiter_name("of_16_letters___"), std::invalid_argument,
        says("weir::limiter_name: the name `of_16_letters___` has more than 15 characters"));
    static_assert(weir::limiter_name("a") == weir::limiter_name(std::string_view("a")));
}

// The 64-bit FNV-1a hashes of the empty text, `a` and `foobar`, from the page of its authors.
BOOST_AUTO_TEST_CASE(have_partitions_with_the_same_flows_in_every_program) {
    static_assert(weir::partition_flow("") == 0xcbf29ce484222325);
    static_assert(weir::partition_flow("a") == 0xaf63dc4c8601ec8c);
    static_assert(weir::partition_flow("foobar") == 0x85944171f73967e8);
    BOOST_TEST(weir::partition("foobar", 3).flow() == weir::partition_flow("foobar"));
}

BOOST_AUTO_TEST_CASE(that_are_not_enumerators_throw_with_name_and_value) {
    constexpr auto past_full = static_cast<int>(weir::when_full::evict_oldest) + 1;
    BOOST_CHECK_EXCEPTION(
        validate({.full = static_cast<weir::when_full>(past_full)}), std::invalid_argument,
        says("weir::queue_options: full is 2, but must be from 0 to 1"));
    constexpr auto past_order = static_cast<int>(weir::queue_order::shares) + 1;
    BOOST_CHECK_EXCEPTION(
        validate({.order = static_cast<weir::queue_order>(past_order)}), std::invalid_argument,
        says("weir::queue_options: order is 7, but must be from 0 to 6"));
}

BOOST_AUTO_TEST_CASE(are_written_as_one_line) {
    BOOST_TEST(to_string(queue_options{}) == "");
    BOOST_TEST(to_string(queue_options{.patience = {}}) == "");  // which is forever, too
    std::string const text =
        "max_waiting 100 full evict_oldest max_waiting_permits 1000 max_expected_wait 3s order "
        "codel target 7ms interval 50ms "
        "tolerance 10us jitter 4s patience 2s";
    auto const options = queue_options::parse(text);
    BOOST_TEST(options.max_waiting == 100);
    BOOST_TEST((options.full == weir::when_full::evict_oldest));
    BOOST_TEST(options.max_waiting_permits == 1000);
    BOOST_TEST(options.max_expected_wait.length_or(0s) == 3s);
    BOOST_TEST((options.order == weir::queue_order::codel));
    BOOST_TEST(options.target == 7ms);
    BOOST_TEST(options.interval == 50ms);
    BOOST_TEST(options.tolerance == 10us);
    BOOST_TEST(options.jitter == 4s);
    BOOST_TEST(options.patience.length_or(0s) == 2s);
    BOOST_TEST(to_string(options) == text);

    BOOST_TEST(to_string(queue_options::parse("")) == "");
    auto const classes = queue_options::parse("order priority ageing 250ms");
    BOOST_TEST((classes.order == weir::queue_order::priority));
    BOOST_TEST(classes.ageing == 250ms);
    BOOST_TEST(to_string(classes) == "order priority ageing 250ms");
    BOOST_TEST((queue_options::parse("order fair").order == weir::queue_order::fair));
    BOOST_TEST(to_string(queue_options::parse("order fair")) == "order fair");
    auto const shares = queue_options::parse("order shares partitions live:70,batch_2.x-y:30");
    BOOST_TEST((shares.order == weir::queue_order::shares));
    BOOST_TEST((shares.partitions == weir::partitions{{"live", 70}, {"batch_2.x-y", 30}}));
    BOOST_TEST(to_string(shares) == "order shares partitions live:70,batch_2.x-y:30");
    BOOST_TEST(to_string(queue_options::parse(" patience forever  max_waiting 0 ")) ==
               "max_waiting 0");
    BOOST_TEST(to_string(queue_options::parse("patience 0s")) == "patience 0s");
    auto const named = queue_options::parse("max_waiting 3 name api.v2_x-y");
    BOOST_TEST(named.name.view() == "api.v2_x-y");
    BOOST_TEST(to_string(named) == "name api.v2_x-y max_waiting 3");
    auto const endless = queue_options::parse("max_waiting unlimited");
    BOOST_TEST(endless.max_waiting == weir::unlimited);
    BOOST_TEST(to_string(endless) == "max_waiting unlimited");
    BOOST_TEST(to_string(queue_options::parse("max_waiting_permits unlimited")) == "");
    BOOST_TEST(to_string(queue_options::parse("max_waiting -3")) ==
               "max_waiting -3");  // `validate` rejects it
}

BOOST_AUTO_TEST_CASE(report_the_column_of_an_error) {
    auto const wrong = [](std::string const& text, std::string const& what) {
        BOOST_CHECK_EXCEPTION((void)queue_options::parse(text), std::invalid_argument,
                              says("weir::queue_options: `" + text + "`, " + what));
    };
    wrong("size 3",
          "column 1: expected name, max_waiting, full, max_waiting_permits, max_expected_wait, "
          "order, target, interval, "
          "ageing, partitions, tolerance, jitter, patience, dry_run or the end of the text, found "
          "`size`");
    wrong("max_waiting", "column 12: expected a whole number, found the end of the text");
    wrong("max_waiting 10000000000000000000",
          "column 13: expected a number from -9223372036854775808 to 9223372036854775807, found "
          "`10000000000000000000`");
    wrong("max_waiting 3 max_waiting 3",
          "column 15: expected name, full, max_waiting_permits, max_expected_wait, order, target, "
          "interval, "
          "ageing, partitions, tolerance, jitter, patience, dry_run or the end of the text, found "
          "`max_waiting`");
    wrong("name",
          "column 5: expected a name of 1 to 15 letters and digits, found the end of the text");
    wrong("name of_16_characters_",
          "column 6: expected a name of 1 to 15 letters and digits, found `of_16_characters_`");
    wrong("name a:b", "column 7: expected a letter or a digit, found `:b`");
    wrong("full up", "column 6: expected reject_newest or evict_oldest, found `up`");
    wrong("order newest", "column 7: expected fifo, lifo, adaptive_lifo, codel, priority, "
                          "fair or shares, found `newest`");
    wrong("partitions",
          "column 11: expected a name of 1 to 14 letters and digits, found the end of the text");
    wrong("partitions live", "column 16: expected a colon, found the end of the text");
    wrong("partitions live:x", "column 17: expected a whole number, found `x`");
    wrong("partitions live:101", "column 17: expected a number from 0 to 100, found `101`");
    wrong("partitions live:70;batch:30",
          "column 19: expected a comma or the end of the partitions, found `;batch:30`");
    wrong("partitions of_fifteen_char:1",
          "column 12: expected a name of 1 to 14 letters and digits, found `of_fifteen_char:1`");
    wrong("partitions a:1,b:1,c:1,d:1,e:1,f:1,g:1,h:1,i:1",
          "column 44: expected at most 8 partitions, found `i:1`");
    wrong("patience 2", "column 10: expected a time in h, min, s, ms, us or ns, found `2`");
}

BOOST_AUTO_TEST_SUITE_END()
