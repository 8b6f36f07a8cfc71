#include <weir/saved_state.hpp>
#include <weir/sliding_log.hpp>
#include <weir/testing.hpp>
#include <weir/token_bucket.hpp>

#include "support/allocations.hpp"
#include "support/random.hpp"
#include "support/saved_format.hpp"
#include "support/wall_clock.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using support::wall;
using weir::saved_state;
using weir::state_writer;

BOOST_AUTO_TEST_SUITE(a_saved_file)

namespace {

using buckets = weir::basic_keyed<std::string, weir::policy::token_bucket, asio::any_io_executor,
                                  weir::testing::timer>;
using calls = weir::testing::limiter<weir::sliding_log>;

template <class Fill>
std::string file_of(Fill fill) {
    std::string file;
    state_writer to([&](std::string_view bytes) { file += bytes; }, wall::read);
    fill(to);
    to.finish();
    return file;
}

std::string hex_of(std::string_view bytes) {
    std::string text;
    for (char const c : bytes) {
        auto const n = static_cast<unsigned char>(c);
        text += "0123456789abcdef"[n / 16];
        text += "0123456789abcdef"[n % 16];
    }
    return text;
}

// Why a file is refused, or an empty text.
std::string refusal_of(std::string file) {
    try {
        saved_state const state(std::move(file), wall::read);
        return {};
    } catch (weir::bad_saved_state const& e) {
        return e.what();
    }
}

// A file of three limiters and a note.
std::string some_file(std::size_t keys = 30) {
    asio::io_context ctx;
    wall::set(support::at(2024, 2, 28, 12h));
    buckets of_clients(ctx, {.rate = {10, 60s}}, {.shards = 1});
    calls all(ctx, {.limit = 5, .window = 60s});
    static_cast<void>(all.charge(3));
    for (std::size_t i = 0; i != keys; ++i)
        static_cast<void>(of_clients.charge("client " + std::to_string(i), 3));
    return file_of([&](state_writer& to) {
        to.note("about", "a test");
        save(of_clients, to, "clients");
        save(all, to, "all");
        save(of_clients, to, "again");
    });
}

}  // namespace

// These bytes must never change within version 1.
BOOST_AUTO_TEST_CASE(has_the_documented_bytes) {
    asio::io_context ctx;
    wall::is = 1'000'000'000ns;  // a second after 1970 began
    buckets of_clients(ctx, {.rate = {10, 10s}}, {.shards = 1});
    static_cast<void>(of_clients.charge("a", 3));
    calls all(ctx, {.limit = 5, .window = 60s});
    static_cast<void>(all.charge(2));
    weir::testing::clock::advance_to(weir::testing::clock::now() + 1s);
    auto const file = file_of([&](state_writer& to) {
        to.note("n", "text");
        save(of_clients, to, "k");
        save(all, to, "l");
    });
    BOOST_TEST(
        hex_of(file) ==
        // WEIRSTAT, version, wall time, checksum
        "5745495253544154"
        "0100"
        "00ca9a3b00000000"
        "014343e5"
        // length and checksum of the block
        "48000000"
        "7b24b1fc"
        "0701"
        "016e"
        "74657874"
        "1802"
        "8094ebdc03"
        "01"
        "016b"
        "0d31302f313073206275636b6574"
        "00"
        "0203"
        "00"
        "0804"
        "0161"
        "8090dfc04a"
        "1702"
        "8094ebdc03"
        "00"
        "016c"
        "06352f316d696e"
        "00"
        "8094ebdc03"
        "02"
        "0200"
        "05");
}

BOOST_AUTO_TEST_CASE(is_refused_wherever_it_is_cut) {
    auto const file = some_file();
    BOOST_TEST(refusal_of(file) == "");
    for (std::size_t size = 0; size != file.size(); ++size)
        BOOST_REQUIRE_NE(refusal_of(file.substr(0, size)), "");
    BOOST_TEST(refusal_of(file + '\0') != "");
    BOOST_TEST(refusal_of(file + file) != "");
    BOOST_TEST(refusal_of(file + file.substr(22)) != "");  // more blocks
}

BOOST_AUTO_TEST_CASE(is_refused_whichever_bit_is_flipped) {
    auto const file = some_file();
    for (std::size_t i = 0; i != file.size() * 8; ++i) {
        auto wrong = file;
        wrong[i / 8] = static_cast<char>(wrong[i / 8] ^ (1 << i % 8));
        BOOST_REQUIRE_NE(refusal_of(wrong), "");
    }
}

BOOST_AUTO_TEST_CASE(is_refused_with_the_byte_and_the_reason) {
    auto const file = some_file();
    BOOST_TEST(refusal_of("") == "byte 0: this is not a saved state");
    BOOST_TEST(refusal_of("WEIRSTOP and more than the header of a file") ==
               "byte 0: this is not a saved state");
    BOOST_TEST(refusal_of(file.substr(0, 21)) == "byte 21: the file ends in its header");
    BOOST_TEST(refusal_of(file.substr(0, 22)) == "byte 22: the file ends behind its header");
    BOOST_TEST(refusal_of(file.substr(0, 29)) == "byte 29: the file ends in the head of a block");
    BOOST_TEST(refusal_of(file.substr(0, 100)) == "byte 100: the file ends in a block");
    auto wrong = file;
    wrong[19] = static_cast<char>(wrong[19] + 1);
    BOOST_TEST(refusal_of(wrong) == "byte 18: the checksum of the header is wrong");
    wrong = file;
    wrong.back() = static_cast<char>(wrong.back() + 1);
    BOOST_TEST(refusal_of(wrong) == "byte 26: the checksum of a block is wrong");
}

BOOST_AUTO_TEST_CASE(of_another_version_is_refused) {
    BOOST_TEST(refusal_of(support::saved::header(0, 2)) ==
               "byte 8: the version is 2, but this program reads 1");
}

BOOST_AUTO_TEST_CASE(from_the_future_is_refused_after_a_day) {
    auto const file = some_file();
    wall::is -= 24h;
    BOOST_TEST(refusal_of(file) == "");
    wall::is -= 1ns;
    BOOST_TEST(refusal_of(file).ends_with("more than a day later than the wall clock shows"));
    BOOST_TEST(refusal_of(file).starts_with("byte 10: "));
}

BOOST_AUTO_TEST_CASE(without_finish_is_incomplete) {
    std::string file;
    state_writer to([&](std::string_view bytes) { file += bytes; }, wall::read);
    to.note("n", std::string(200'000, 'x'));
    BOOST_TEST(refusal_of(file) != "");
    to.finish();
    BOOST_TEST(refusal_of(file) == "");
}

BOOST_AUTO_TEST_CASE(has_its_notes_and_names_in_order) {
    auto const file = some_file(5'000);  // more than a block
    BOOST_TEST(file.size() > 3U * 65'536);
    saved_state const state(file, wall::read);
    BOOST_TEST(state.note("about").value_or("") == "a test");
    BOOST_TEST(!state.note("other").has_value());
    auto const names = state.names();
    BOOST_REQUIRE_EQUAL(names.size(), 3U);
    BOOST_TEST(names[0] == "clients");
    BOOST_TEST(names[1] == "all");
    BOOST_TEST(names[2] == "again");
}

BOOST_AUTO_TEST_CASE(is_written_in_small_parts) {
    std::size_t most = 0;
    state_writer to([&](std::string_view bytes) { most = std::max(most, bytes.size()); },
                    wall::read);
    to.note("n", std::string(1'000'000, 'x'));
    to.finish();
    BOOST_TEST(most == 65'536U + 8U);
}

BOOST_AUTO_TEST_CASE(with_valid_sums_and_wrong_records_is_refused) {
    support::for_each_seed(1, 2'000, [](support::random_source& random) {
        wall::is = 0ns;
        std::string payload;
        for (auto n = random.between(1, 60); n != 0; --n)
            payload.push_back(static_cast<char>(
                random.one_in(3) ? random.between(-128, 127) : random.between(0, 9)));
        auto const whole = support::saved::file_with(payload);
        support::allocation_count const allocations;
        auto const refused = refusal_of(whole);
        BOOST_REQUIRE_LT(allocations(), 100U);
        if (!refused.empty())
            BOOST_REQUIRE_LE(std::stoull(refused.substr(5)), whole.size());
    });
}

BOOST_AUTO_TEST_SUITE_END()
