#include "weir/agent/frames.hpp"

#include "support/random.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// Oracle: the description of a frame at the head of frames.hpp.

namespace {

using namespace std::chrono_literals;
using namespace std::string_view_literals;
using namespace weir::agent::detail;
constexpr auto most = std::numeric_limits<std::int64_t>::max();

std::string bytes_of(message const& m) {
    std::string bytes;
    encode(bytes, m);
    return bytes;
}

std::optional<message> only(std::string_view bytes) {
    frame_reader reader;
    reader.add(bytes);
    auto const first = reader.next();
    BOOST_TEST(!reader.next());
    return first;
}

bool is_invalid(std::string_view bytes) {
    frame_reader reader;
    reader.add(bytes);
    while (reader.next()) {}
    BOOST_TEST(!reader.next());
    return reader.is_invalid();
}

take const question{
    .id = 0x0102030405060708,
    .name = "calls",
    .bucket = {.drained = 2, .permit = 100'000, .burst = 20},
    .min = 1,
    .max = 7,
    .ahead = 1s,
    .timeout = 50ms};

std::vector<message> const examples{
    hello{},
    question,
    give_back{.name = "log", .bucket = {.burst = 5, .window = 1'000'000}, .count = 5, .since = 99},
    answer{.id = 3, .granted = 7, .wait = 2us, .since = 1'700'000'000'000'000},
    answer{.id = 4, .what = answer::result::misconfigured, .text = "no\0password"},
    goodbye{"too old"}};

}  // namespace

BOOST_AUTO_TEST_SUITE(agent_frames)

BOOST_AUTO_TEST_CASE(frame_has_its_length_its_kind_and_the_members_in_order) {
    BOOST_TEST(bytes_of(hello{7}) == "\5\0\0\0\0\7\0\0\0"sv);
    BOOST_TEST(bytes_of(goodbye{"ab"}) == "\5\0\0\0\4\2\0ab"sv);
    BOOST_TEST(
        bytes_of(answer{
            .id = 258, .granted = 1, .wait = 2us, .since = 3, .is_new = true, .text = "x"}) ==
        "\x26\0\0\0\3\2\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0\1\1\0x"sv);
}

BOOST_AUTO_TEST_CASE(each_message_is_read_as_it_was_written) {
    for (auto const& m : examples) {
        auto const bytes = bytes_of(m);
        auto const found = only(bytes);
        BOOST_TEST_REQUIRE(found.has_value());
        BOOST_TEST(found->index() == m.index());
        BOOST_TEST(bytes_of(*found) == bytes);
    }
    auto const q = std::get<take>(only(bytes_of(question)).value());
    BOOST_TEST(q.id == question.id);
    BOOST_TEST(q.name == "calls");
    BOOST_TEST(q.bucket.permit == 100'000);
    BOOST_TEST(q.max == 7);
    BOOST_TEST((q.timeout == 50ms));
}

BOOST_AUTO_TEST_CASE(bytes_may_arrive_in_any_portions) {
    std::string all;
    for (auto const& m : examples)
        encode(all, m);
    support::for_each_seed(1, 50, [&](auto& random) {
        frame_reader reader;
        std::size_t found = 0;
        for (std::size_t i = 0; i != all.size();) {
            auto const n = std::min<std::size_t>(
                static_cast<std::size_t>(random.between(1, 60)), all.size() - i);
            reader.add(std::string_view(all).substr(i, n));
            i += n;
            for (; auto const m = reader.next(); ++found)
                BOOST_TEST_REQUIRE(bytes_of(*m) == bytes_of(examples[found]));
        }
        BOOST_TEST(found == examples.size());
        BOOST_TEST(!reader.is_invalid());
    });
}

BOOST_AUTO_TEST_CASE(frame_that_was_cut_anywhere_is_no_message) {
    for (auto const& m : examples) {
        auto const bytes = bytes_of(m);
        for (std::size_t n = 0; n != bytes.size(); ++n) {
            frame_reader reader;
            reader.add(std::string_view(bytes).substr(0, n));
            BOOST_TEST(!reader.next());
            BOOST_TEST(!reader.is_invalid());
            if (n < 6)
                continue;
            // The same with the length of a whole message.
            auto shorter = bytes.substr(0, n);
            shorter[0] = static_cast<char>((n - 4) & 0xFF);
            shorter[1] = static_cast<char>((n - 4) >> 8);
            BOOST_TEST(is_invalid(shorter));
        }
        auto longer = bytes + 'x';
        ++longer[0];
        BOOST_TEST(is_invalid(longer));
    }
}

BOOST_AUTO_TEST_CASE(invalid_lengths_and_kinds_are_found_at_once) {
    BOOST_TEST(is_invalid("\0\0\0\0"sv));
    BOOST_TEST(is_invalid("\xff\xff\xff\xff"sv));
    BOOST_TEST(is_invalid("\x01\x08\0\0"sv));  // 2049
    BOOST_TEST(!is_invalid("\0\x08\0\0"sv));
    BOOST_TEST(is_invalid("\1\0\0\0\5"sv));
    BOOST_TEST(is_invalid("\1\0\0\0\xff"sv));
    frame_reader reader;
    reader.add("\0\0\0\0"sv);
    BOOST_TEST(!reader.next());
    reader.add(bytes_of(hello()));
    BOOST_TEST(!reader.next());  // it remains so
}

BOOST_AUTO_TEST_CASE(numbers_out_of_range_are_invalid) {
    auto const with = [](auto one, auto change) {
        change(one);
        return is_invalid(bytes_of(one));
    };
    BOOST_TEST(!with(question, [](take&) {}));
    std::vector<std::function<void(take&)>> const wrong{
        [](take& q) { q.name.clear(); },
        [](take& q) { q.name.assign(256, 'x'); },
        [](take& q) { q.bucket.drained = 0; },
        [](take& q) { q.bucket.permit = -1; },
        [](take& q) { q.bucket.burst = 0; },
        [](take& q) { q.bucket.burst = most; },
        [](take& q) { q.bucket.window = -1; },
        [](take& q) { q.bucket.window = most; },
        [](take& q) { q.min = 0; },
        [](take& q) { q.min = 8; },
        [](take& q) { q.max = 21; },
        [](take& q) { q.ahead = -1us; },
        [](take& q) { q.timeout = 0us; },
        [](take& q) { q.timeout = 2h; },
    };
    for (auto const& change : wrong)
        BOOST_TEST(with(question, change));
    give_back const back = std::get<give_back>(examples[2]);
    BOOST_TEST(with(back, [](give_back& g) { g.count = 0; }));
    BOOST_TEST(with(back, [](give_back& g) { g.count = 6; }));
    BOOST_TEST(with(back, [](give_back& g) { g.since = 0; }));
    answer const said = std::get<answer>(examples[3]);
    BOOST_TEST(with(said, [](answer& a) { a.granted = -1; }));
    BOOST_TEST(with(said, [](answer& a) { a.granted = 0; }));  // with a time
    BOOST_TEST(with(said, [](answer& a) { a.since = 0; }));
    BOOST_TEST(with(said, [](answer& a) { a.wait = -1us; }));
    BOOST_TEST(with(said, [](answer& a) { a.what = answer::result(5); }));
}

BOOST_AUTO_TEST_CASE(long_text_is_cut) {
    auto const found = only(bytes_of(goodbye{std::string(5000, 'x')}));
    BOOST_TEST(std::get<goodbye>(found.value()).text == std::string(1000, 'x'));
}

BOOST_AUTO_TEST_CASE(random_bytes_are_read_without_harm) {
    support::for_each_seed(1, 2000, [](auto& random) {
        frame_reader reader;
        auto bytes = bytes_of(random.one_of({examples[1], examples[2], examples[3]}));
        for (auto n = random.between(1, 3); n != 0; --n)
            bytes[static_cast<std::size_t>(
                random.between(0, static_cast<std::int64_t>(bytes.size()) - 1))] =
                static_cast<char>(random.between(0, 255));
        reader.add(bytes);
        while (auto const m = reader.next())
            BOOST_TEST(!bytes_of(*m).empty());
    });
}

BOOST_AUTO_TEST_SUITE_END()
