// Connections with a channel that follows a script.

#include "net/connection.hpp"
#include "two_ends.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/test/unit_test.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>

namespace {

namespace asio = net::asio;

// Ends its output in the third attempt, or fails then.
class slow_channel final : public net::channel {
public:
    explicit slow_channel(net::error_code last) : last_(last) {}

    [[nodiscard]] result shake_hands() override { return {}; }
    [[nodiscard]] agreement agreed() const override { return {}; }
    [[nodiscard]] result read(std::span<char>) override { return {.ec = asio::error::would_block}; }
    [[nodiscard]] result write(http::gather const&) override { return {}; }
    [[nodiscard]] bool has_input() const override { return has_part; }
    result end_output() override {
        ++attempts;
        if (attempts < 3)
            return {.ec = asio::error::would_block, .next = net::stream_socket::wait_write};
        return {.ec = last_};
    }

    int attempts = 0;
    bool has_part = false;  // of a record, of which it can read nothing

private:
    net::error_code last_;
};

struct encrypted : two_ends {
    void encrypt(net::error_code last) {
        auto made = std::make_unique<slow_channel>(last);
        channel = made.get();
        run([&]() -> net::task<net::error_code> {
            auto const make = [&](int) { return std::move(made); };
            co_return co_await connection.encrypt(make);
        });
    }
    template <class F>
    net::error_code run(F f) {
        std::optional<net::error_code> result;
        auto const all = [&]() -> net::task<> { result = co_await f(); };
        asio::co_spawn(context, all(), asio::detached);
        run_until(context, [&] { return result.has_value(); });
        return *result;
    }
    net::error_code end_output() {
        return run([&] { return connection.end_output(); });
    }
    bool they_see_the_end() {
        std::array<char, 1> room{};
        theirs.non_blocking(true);
        net::error_code ec;
        static_cast<void>(theirs.read_some(asio::buffer(room), ec));
        return ec == asio::error::eof;
    }

    net::watchdog dog{context};
    net::connection connection{std::move(mine), dog};
    slow_channel* channel = nullptr;
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(the_output_ends_after_its_announcement, encrypted) {
    encrypt({});
    BOOST_TEST(!end_output());
    BOOST_TEST(channel->attempts == 3);
    run_until(context, [&] { return they_see_the_end(); });
}

BOOST_FIXTURE_TEST_CASE(the_output_does_not_end_without_announcement, encrypted) {
    encrypt(asio::error::broken_pipe);
    BOOST_TEST((end_output() == asio::error::broken_pipe));
    BOOST_TEST(!they_see_the_end());
}

BOOST_FIXTURE_TEST_CASE(a_closed_connection_has_no_output, encrypted) {
    encrypt({});
    connection.close();
    BOOST_TEST((end_output() == asio::error::bad_descriptor));
    BOOST_TEST(channel->attempts == 0);
}

BOOST_FIXTURE_TEST_CASE(a_part_of_a_record_awaits_the_rest, encrypted) {
    encrypt({});
    channel->has_part = true;
    int ready = 0;
    auto const count = [&](net::error_code ec) { ready += ec ? 0 : 1; };
    connection.wait(net::stream_socket::wait_read, count);
    run_until(context, [&] { return ready == 1; });  // the part may have been a record

    std::array<char, 10> room{};
    net::error_code ec;
    BOOST_TEST(connection.receive_now(room, ec) == 0u);
    BOOST_TEST((ec == asio::error::would_block));
    connection.wait(net::stream_socket::wait_read, count);
    context.restart();
    context.poll();
    BOOST_TEST(ready == 1);
    they_send("the rest");
    run_until(context, [&] { return ready == 2; });
}
