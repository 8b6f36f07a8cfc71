#include "replay/progress.hpp"

#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(the_progress_of_a_reading)

namespace {

using file = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

struct bar_in_a_file {
    // The text since the previous call, without the code that erases a line.
    std::string show(std::uint64_t lines, replay::progress_bar::clock::duration at,
                     std::uint64_t bytes = 0, std::uint64_t bytes_in_all = 0) {
        replay::reading r;
        r.lines = lines;
        r.bytes = bytes;
        r.bytes_in_all = bytes_in_all;
        bar.show(r, begin + at);
        return take();
    }
    std::string take() {
        std::string text;
        std::fseek(to.get(), seen, SEEK_SET);
        for (int c = std::fgetc(to.get()); c != EOF; c = std::fgetc(to.get()))
            text += static_cast<char>(c);
        seen = std::ftell(to.get());
        if (!text.empty()) {
            BOOST_TEST(text.starts_with(erase));
            text.erase(0, erase.size());
        }
        return text;
    }

    std::string const erase = "\r\x1b[K";
    file to{std::tmpfile(), &std::fclose};
    long seen = 0;
    replay::progress_bar::clock::time_point begin{1h};
    replay::progress_bar bar{to.get(), begin};
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(has_a_bar_if_the_size_is_known, bar_in_a_file) {
    BOOST_TEST(show(3'000'000, 2s, 250, 1000) ==
               "[=======                       ]  25 %  3,000,000 lines, 1.5 million per second, "
               "6 s left");
    BOOST_TEST(show(12'000'000, 8s, 1000, 1000) ==
               "[==============================] 100 %  12,000,000 lines, 1.5 million per second, "
               "0 s left");
}

BOOST_FIXTURE_TEST_CASE(has_no_bar_if_the_size_is_unknown, bar_in_a_file) {
    BOOST_TEST(show(1'000'000, 2s, 250) == "1,000,000 lines, 0.5 million per second");
}

BOOST_FIXTURE_TEST_CASE(has_no_time_left_before_the_first_byte, bar_in_a_file) {
    BOOST_TEST(show(0, 1s, 0, 1000) ==
               "[                              ]   0 %  0 lines, 0.0 million per second");
}

BOOST_FIXTURE_TEST_CASE(is_shown_every_100_ms, bar_in_a_file) {
    BOOST_TEST(show(1, 100ms - 1ns) == "");
    BOOST_TEST(show(1, 100ms) != "");
    BOOST_TEST(show(1, 200ms - 1ns) == "");
    BOOST_TEST(show(1, 200ms) != "");
}

// With --find, the logs are read several times. The time left is unknown, but the speed is the speed of all passes.
BOOST_FIXTURE_TEST_CASE(continues_with_each_pass_over_the_logs, bar_in_a_file) {
    static_cast<void>(show(4'000'000, 1s, 500, 1000));
    static_cast<void>(show(8'000'000, 1s + 1ms, 1000, 1000));
    BOOST_TEST(show(2'000'000, 2s, 250, 1000) ==
               "[=======                       ]  25 %  2,000,000 lines, 5.0 million per second");
    BOOST_TEST(show(4'000'000, 3s, 500, 1000) ==
               "[===============               ]  50 %  4,000,000 lines, 4.0 million per second");
}

BOOST_FIXTURE_TEST_CASE(is_erased_once, bar_in_a_file) {
    auto const written = [this] {
        std::fseek(to.get(), 0, SEEK_END);
        return std::ftell(to.get());
    };
    bar.clear();
    BOOST_TEST(written() == 0);
    static_cast<void>(show(1, 1s));
    auto const before = written();
    bar.clear();
    BOOST_TEST(take() == "");  // after the code
    BOOST_TEST(written() == before + static_cast<long>(erase.size()));
    bar.clear();
    BOOST_TEST(written() == before + static_cast<long>(erase.size()));
}

BOOST_FIXTURE_TEST_CASE(is_for_a_terminal, bar_in_a_file) {
    BOOST_TEST(!bar.is_on_terminal());
    file const ours(::fdopen(::posix_openpt(O_RDWR | O_NOCTTY), "r+"), &std::fclose);
    BOOST_REQUIRE(ours);
    BOOST_TEST(replay::progress_bar(ours.get()).is_on_terminal());
}

BOOST_AUTO_TEST_SUITE_END()
