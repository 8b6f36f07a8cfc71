#include <weir/time_zone.hpp>

#include "support/random.hpp"
#include "support/says.hpp"
#include "support/zone_file.hpp"
#include "weir/zone_rules.hpp"

#include <boost/test/unit_test.hpp>

#include <sys/stat.h>

#include <chrono>
#include <cstddef>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

using namespace std::chrono_literals;
using std::chrono::seconds;
using std::chrono::sys_days;
using std::chrono::sys_seconds;
using std::chrono::year;
using support::random_source;
using support::says;
using support::zone_file;
using support::zone_folder;
using weir::time_zone;
using weir::detail::yearly_rule;
using weir::detail::zone_rules;

namespace {

constexpr sys_seconds at(int y, int m, int d, seconds time = 0s) {
    return sys_days(year(y) / m / d) + time;
}

// Checks that a rule changes to `offset` at this second, and not before.
void check_change(std::string_view rule, sys_seconds t, seconds before, seconds offset) {
    BOOST_TEST_CONTEXT(rule) {
        auto const parsed = yearly_rule::parse(rule);
        BOOST_TEST_REQUIRE(parsed.has_value());
        BOOST_TEST((parsed->at(t - 1s).offset == before));
        BOOST_TEST((parsed->at(t).offset == offset));
        BOOST_TEST((parsed->at(t).begin == t));
        BOOST_TEST((parsed->at(t - 1s).end == t));
    }
}

void check_rejected(zone_folder const& folder, zone_file const& content,
                    std::string const& reason) {
    static int number = 0;
    auto const name = "Broken/Z" + std::to_string(++number);
    BOOST_CHECK_EXCEPTION((void)folder.add(name, content), std::invalid_argument,
                          says("weir::time_zone: zone `" + name + "`: " + folder.path() + "/" +
                               name + ": " + reason));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_time_zone)

BOOST_AUTO_TEST_CASE(is_utc_by_default_without_a_file) {
    zone_folder const empty;
    for (auto const zone : {time_zone(), time_zone("UTC")}) {
        BOOST_TEST(zone.name() == "UTC");
        auto const p = zone.at(at(2024, 5, 5));
        BOOST_TEST((p.offset == 0s));
        BOOST_TEST((p.begin == sys_seconds::min() && p.end == sys_seconds::max()));
    }
    BOOST_TEST((time_zone() == time_zone("UTC")));
    static_assert(sizeof(time_zone) == sizeof(void*));
}

BOOST_AUTO_TEST_CASE(has_the_changes_of_its_file_and_then_the_rule) {
    zone_folder const folder;
    auto const zone = folder.add("Some/Zone", {.offsets = {-17'762, -18'000, -14'400},
                                               .changes = {{-2'717'650'800, 1}, {0, 2}, {1'000, 1}},
                                               .rule = "EST5EDT,M3.2.0,M11.1.0"});
    BOOST_TEST(zone.name() == "Some/Zone");
    auto const first = zone.at(sys_seconds(seconds(-2'717'650'801)));
    BOOST_TEST((first.offset == -17'762s && first.begin == sys_seconds::min()));
    BOOST_TEST((first.end == sys_seconds(seconds(-2'717'650'800))));
    BOOST_TEST((zone.at(first.end).offset == -5h));
    BOOST_TEST((zone.at(sys_seconds(999s)).offset == -4h));
    auto const ruled = zone.at(sys_seconds(1'000s));
    BOOST_TEST((ruled.offset == -5h && ruled.begin == sys_seconds(1'000s)));
    BOOST_TEST((ruled.end == at(1970, 3, 8, 7h)));
    BOOST_TEST((zone.at(at(2500, 7, 1)).offset == -4h));
    BOOST_TEST((zone.at(at(12'000, 7, 1)).end == sys_seconds::max()));

    auto const endless = folder.add("Some/Endless", {.offsets = {0, 60}, .changes = {{500, 1}}});
    BOOST_TEST((endless.at(at(2500, 1, 1)).offset == 60s));
    BOOST_TEST((endless.at(at(2500, 1, 1)).end == sys_seconds::max()));
}

BOOST_AUTO_TEST_CASE(understands_all_forms_of_rules) {
    check_change("EST5EDT,M3.2.0,M11.1.0", at(2024, 3, 10, 7h), -5h, -4h);
    check_change("EST5EDT,M3.2.0,M11.1.0", at(2024, 11, 3, 6h), -4h, -5h);
    check_change("CET-1CEST,M3.5.0,M10.5.0/3", at(2024, 3, 31, 1h), 1h, 2h);
    check_change("AEST-10AEDT,M10.1.0,M4.1.0/3", at(2024, 4, 6, 16h), 11h, 10h);
    check_change("AEST-10AEDT,M10.1.0,M4.1.0/3", at(2024, 10, 5, 16h), 10h, 11h);
    check_change("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", at(2024, 10, 5, 15h + 30min), 10h + 30min,
                 11h);
    check_change("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", at(2024, 3, 31, 1h), -2h, -1h);
    check_change("IST-2IDT,M3.4.4/26,M10.5.0", at(2024, 3, 29, 0h), 2h, 3h);
    check_change("EET-2EEST,M3.4.4/50,M10.4.4/50", at(2024, 3, 30, 0h), 2h, 3h);
    check_change("IST-1GMT0,M10.5.0,M3.5.0/1", at(2024, 3, 31, 1h), 0h,
                 1h);  // Ireland: winter time
    check_change("AAA0BBB,J60,J300", at(2024, 3, 1, 2h), 0h, 1h);
    check_change("AAA0BBB,J59,J300", at(2024, 2, 28, 2h), 0h, 1h);
    check_change("AAA0BBB,59,300", at(2024, 2, 29, 2h), 0h, 1h);
    check_change("AAA0BBB,59,300", at(2023, 3, 1, 2h), 0h, 1h);
    check_change("AAA0BBB,0/-167,300", at(2023, 12, 25, 1h), 0h, 1h);
    check_change("AAA1:02:03BBB2,10/167:59:59,300", at(2024, 1, 18, 1h + 2min + 2s),
                 -(1h + 2min + 3s), -2h);

    auto const always = yearly_rule::parse("XXX3EDT4,0/0,J365/23");  // summer time all year
    BOOST_TEST_REQUIRE(always.has_value());
    for (auto t = at(2023, 12, 30); t != at(2024, 1, 3); t += 1h)
        BOOST_TEST((always->at(t).offset == -4h));
    BOOST_TEST((yearly_rule::parse("<+0545>-5:45")->at(at(2024, 1, 1)).offset == 5h + 45min));
}

BOOST_AUTO_TEST_CASE(rejects_other_rules) {
    for (auto const* const text :
         {"",
          "AB0",
          "ABC",
          "ABC+",
          "ABC25",
          "ABC1x",
          "<AB1",
          "<A>1",
          "AB10",
          "ABC0DEF",
          "ABC0DEF,",
          "ABC0DEF,M3.2.0",
          "ABC0DEF,M3.2.0,",
          "ABC0DEF,M13.2.0,M11.1.0",
          "ABC0DEF,M0.2.0,M11.1.0",
          "ABC0DEF,M3.6.0,M11.1.0",
          "ABC0DEF,M3.0.0,M11.1.0",
          "ABC0DEF,M3.2.7,M11.1.0",
          "ABC0DEF,M3.2,M11.1.0",
          "ABC0DEF,J0,J1",
          "ABC0DEF,J366,J1",
          "ABC0DEF,366,1",
          "ABC0DEF,1/168,2",
          "ABC0DEF,1/2:60,2",
          "ABC0DEF,1,2 ",
          "ABC0DEF,1,2/",
          "ABC0DEF1:00:60,1,2",
          "ABC00000",
          "ABC0DE,1,2"})
        BOOST_TEST(!yearly_rule::parse(text).has_value(), text);
}

BOOST_AUTO_TEST_CASE(names_the_zone_and_its_file_in_errors) {
    zone_folder const folder;
    auto const file = folder.path() + "/Europe/Berln: ";
    BOOST_CHECK_EXCEPTION(time_zone("Europe/Berln"), std::invalid_argument,
                          says("weir::time_zone: zone `Europe/Berln`: " + file +
                               "cannot read the file: No such file or directory"));
    folder.write("Europe/Berln", "hello");
    BOOST_CHECK_EXCEPTION(time_zone("Europe/Berln"), std::invalid_argument,
                          says("weir::time_zone: zone `Europe/Berln`: " + file +
                               "the file is not in the format TZif"));
    BOOST_CHECK_EXCEPTION(
        time_zone("Europe"), std::invalid_argument,
        says("weir::time_zone: zone `Europe`: " + folder.path() + "/Europe: not a regular file"));
    BOOST_TEST_REQUIRE(mkfifo((folder.path() + "/Pipe").c_str(), 0600) == 0);
    BOOST_CHECK_EXCEPTION(
        time_zone("Pipe"), std::invalid_argument,
        says("weir::time_zone: zone `Pipe`: " + folder.path() + "/Pipe: not a regular file"));
    folder.write("Large", std::string((1 << 20) + 1, 'x'));
    BOOST_CHECK_EXCEPTION(time_zone("Large"), std::invalid_argument,
                          says("weir::time_zone: zone `Large`: " + folder.path() +
                               "/Large: the file is larger than 1 MiB"));
}

BOOST_AUTO_TEST_CASE(reads_no_file_outside_the_folder) {
    zone_folder const folder;
    auto const good = zone_file().bytes();
    folder.write("Zone", good);
    folder.write("A/Zone", good);
    folder.write("A/b_-+9", good);
    BOOST_TEST(time_zone("A/b_-+9").name() == "A/b_-+9");
    for (std::string const name :
         {"", "/Zone", "A/", "A//Zone", "../Zone", "A/../Zone", "./Zone", "A/./Zone", "A/Zone.",
          "A\\Zone", "9Zone", "A/9Zone", "A Zone", "A\nZone", "Zonö", "A/-Zone"})
        BOOST_CHECK_EXCEPTION(time_zone{name}, std::invalid_argument,
                              says("weir::time_zone: zone `" + name +
                                   "`: not a name of a time zone, such as `Europe/Berlin`"));
    BOOST_CHECK_THROW(time_zone(std::string(256, 'A')), std::invalid_argument);
    BOOST_CHECK_THROW(time_zone(std::string_view("Zone\0", 5)), std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(is_read_once) {
    zone_folder const folder;
    auto const zone = folder.add("Zone", {.offsets = {60}});
    folder.write("Zone", "no longer a zone");
    BOOST_TEST((time_zone("Zone") == zone));
    BOOST_TEST((time_zone("Zone").at({}).offset == 60s));
    BOOST_TEST((folder.add("Other", {.offsets = {60}}) != zone));

    zone_folder const other;
    BOOST_TEST((other.add("Zone", {.offsets = {120}}).at({}).offset == 120s));
}

BOOST_AUTO_TEST_CASE(rejects_files_of_another_content) {
    zone_folder const folder;
    check_rejected(folder, {.version = '\0'},
                   "the file is of version 1, but must be of version 2 or later");
    check_rejected(folder, {.leap_seconds = 1}, "the file counts leap seconds");
    check_rejected(folder, {.offsets = {}}, "the file has no offset from UTC");
    check_rejected(folder, {.offsets = {26 * 3600 + 1}}, "an offset from UTC is too large");
    check_rejected(folder, {.offsets = {-26 * 3600 - 1}}, "an offset from UTC is too large");
    check_rejected(folder, {.changes = {{5, 1}}}, "a change has an unknown offset from UTC");
    check_rejected(folder, {.changes = {{5, 0}, {5, 0}}}, "the changes are not in order");
    check_rejected(folder, {.changes = {{5, 0}, {4, 0}}}, "the changes are not in order");
    check_rejected(folder, {.rule = "CET"}, "the rule at the end of the file is broken");
}

// With a sanitizer, this also shows that nothing beyond the bytes is read.
BOOST_AUTO_TEST_CASE(survives_broken_files) {
    zone_file const whole{.offsets = {-17'762, -18'000, -14'400},
                          .changes = {{-2'717'650'800, 1}, {0, 2}, {1'000, 1}},
                          .rule = "EST5EDT,M3.2.0,M11.1.0"};
    auto const bytes = whole.bytes();
    (void)zone_rules::parse(bytes);
    auto const try_parse = [](std::string const& content) {
        std::string const exact(content);  // its end is the end of an allocation
        try {
            auto const rules = zone_rules::parse(exact);
            for (auto const t : {at(-9'999, 1, 1), at(1800, 1, 1), sys_seconds(500s),
                                 at(2024, 5, 5), at(9'999, 1, 1)}) {
                auto const p = rules.at(t);
                BOOST_TEST((p.begin <= t && t < p.end), "a period contains its instant");
                BOOST_TEST((p.offset >= -26h && p.offset <= 26h));
            }
            return true;
        } catch (std::invalid_argument const&) {
            return false;
        }
    };
    for (std::size_t n = 0; n != bytes.size(); ++n)
        BOOST_TEST(!try_parse(bytes.substr(0, n)), "cut at " << n);
    for (std::size_t i = 0; i != bytes.size() * 8; ++i) {
        auto flipped = bytes;
        flipped[i / 8] = static_cast<char>(flipped[i / 8] ^ (1 << i % 8));
        (void)try_parse(flipped);
    }
    support::for_each_seed(1, 20'000, [&](random_source& random) {
        auto content = bytes;
        for (auto changes = random.between(1, 8); changes != 0; --changes)
            content[random.index_in(content)] = static_cast<char>(random.between(0, 255));
        if (random.one_in(4))
            content.resize(random.index_in(content));
        (void)try_parse(content);
    });
}

BOOST_AUTO_TEST_SUITE_END()
