#include "local_proxy.hpp"
#include "net/channel.hpp"
#include "net/connection.hpp"
#include "proxy/bandwidth.hpp"
#include "proxy/tunnel.hpp"
#include "proxy/workspace.hpp"

#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/test/unit_test.hpp>

#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>

// Every end of a tunnel, at each of its steps.

using namespace std::chrono_literals;
using support::wire;

// Files of this folder are compiled together.
namespace ends_of_a_tunnel {
namespace {

namespace asio = net::asio;

// The need of the direction to the server. With `other_direction` it has ended, and with `last_direction` the other
// one.
enum class step : std::uint8_t {
    nothing_sent,
    bytes,
    room,
    permits,
    room_for_end,
    other_direction,
    last_direction
};
enum class end : std::uint8_t {
    both_close,
    both_close_later,
    cancellation,
    abort,
    idle,
    destruction
};

constexpr std::array steps{
    step::nothing_sent, step::bytes,           step::room,          step::permits,
    step::room_for_end, step::other_direction, step::last_direction};
constexpr std::array ends{end::both_close, end::both_close_later, end::cancellation, end::abort,
                          end::idle,       end::destruction};

std::array<int, 2> two_sockets() {
    std::array<int, 2> both{};
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, both.data()) == 0);
    return both;
}

// Accepts the end of its output when the other side has sent something.
class slow_to_end final : public net::channel {
public:
    explicit slow_to_end(int socket) noexcept : socket_(socket) {}

    [[nodiscard]] result shake_hands() override { return {}; }
    [[nodiscard]] agreement agreed() const override { return {}; }
    [[nodiscard]] result read(std::span<char> into) override {
        auto const n = ::recv(socket_, into.data(), into.size(), 0);
        if (n < 0)
            return {.ec = asio::error::would_block};
        return {.bytes = static_cast<std::size_t>(n),
                .ec = n == 0 ? asio::error::eof : net::error_code()};
    }
    [[nodiscard]] result write(http::gather const& what) override {
        auto const n = ::send(socket_, what.front().data(), what.front().size(), MSG_NOSIGNAL);
        if (n < 0)
            return {.ec = asio::error::broken_pipe};
        return {.bytes = static_cast<std::size_t>(n)};
    }
    [[nodiscard]] bool has_input() const override { return false; }
    result end_output() override {
        bool const again = std::exchange(tried_, true);
        return {.ec = again ? net::error_code() : asio::error::would_block};
    }

private:
    int socket_;
    bool tried_ = false;
};

struct shut_down_early : asio::io_context {
    using asio::execution_context::shutdown;
};

// A tunnel that a coroutine owns, as in the proxy, with both of its connections.
struct owned_tunnel {
    owned_tunnel() {
        int const few_bytes = 4'096;
        ::setsockopt(to_server[0], SOL_SOCKET, SO_SNDBUF, &few_bytes, sizeof few_bytes);
    }
    ~owned_tunnel() { context.shutdown(); }

    void start(step until) {
        auto const ended = [this](std::exception_ptr const& why) {
            BOOST_TEST(!why);
            ++completions;
        };
        asio::co_spawn(context, run(*this, until),
                       asio::bind_cancellation_slot(cancel.slot(), ended));
        settle();
    }

    static net::task<> run(owned_tunnel& t, step until) {
        ++t.alive;
        auto const gone = [&](void*) { --t.alive; };
        std::unique_ptr<owned_tunnel, decltype(gone)> const here(&t, gone);
        net::stream const local(AF_UNIX, 0);
        net::connection client({t.context, local, t.to_client[0]}, t.dog);
        net::connection server({t.context, local, t.to_server[0]}, t.dog);
        if (until == step::room_for_end) {
            auto const make = [](int socket) { return std::make_unique<slow_to_end>(socket); };
            static_cast<void>(co_await server.encrypt(make));
        }
        std::unique_ptr<proxy::transfer> up;
        if (until == step::permits) {
            config::limit slow;
            slow.bandwidth.emplace().up = config::byte_rate{.per_second = 1, .burst = 1};
            auto limit = std::make_unique<proxy::byte_limit>(
                t.context.get_executor(), slow, &config::bandwidth::up);
            proxy::byte_limits const none;
            up = proxy::transfer::start({.of_route = none, .own = std::move(limit)}, t.who);
        }
        auto made = t.make(client, server, up.get());
        t.sent = co_await proxy::tunnel::run(std::move(made), asio::deferred);
    }

    [[nodiscard]] std::shared_ptr<proxy::tunnel> make(
        net::connection& client, net::connection& server, proxy::transfer* up = nullptr) {
        proxy::tunnel::limits const limits{.idle = 2s, .leaves = leaves, .drain = 1s};
        proxy::tunnel::transfers const by{.up = up};
        return std::make_shared<proxy::tunnel>(
            spaces, dog, proxy::tunnel::side{client, spaces.take_buffer("from ")},
            proxy::tunnel::side{server, spaces.take_buffer("to ")}, limits, by);
    }

    // Goes on until the direction to the server awaits what the step names.
    void reach(step what) {
        start(what);
        if (what == step::nothing_sent)
            return;
        far_client.send(what == step::room ? std::string(100'000, 'x') : "client");
        far_server.send("client");
        settle();
        if (what == step::bytes) {
            BOOST_TEST(far_server.take() == "from client");
            BOOST_TEST(far_client.take() == "to client");
        } else if (what == step::permits) {
            BOOST_TEST(far_server.take() == "f");
        } else if (what == step::last_direction) {
            far_server.end();
        } else if (what != step::room) {
            far_client.end();
        }
        settle();
        BOOST_TEST(far_client.ended() == (what == step::last_direction));
        if (what != step::room)
            BOOST_TEST(far_server.ended() == (what == step::other_direction));
        BOOST_TEST(alive == 1);
        BOOST_TEST(completions == 0);
    }
    void finish(end how) {
        switch (how) {
            case end::both_close:
                far_client.close();
                far_server.close();
                return support::pass(5s, [this] { settle(); });
            case end::both_close_later:
                far_server.close();
                settle();
                far_client.close();
                return support::pass(5s, [this] { settle(); });
            case end::cancellation:
                cancel.emit(asio::cancellation_type::terminal);
                return settle();
            case end::abort:
                dog.abort();
                return settle();
            case end::idle:
                return support::pass(5s, [this] { settle(); });
            case end::destruction:
                return context.shutdown();
        }
    }

    void settle() {
        constexpr int most = 10'000;
        int handlers = 0;
        for (bool any = true; any && handlers < most;) {
            any = false;
            support::virtual_time::forget_due();
            context.restart();
            for (; context.poll_one() != 0 && handlers < most; any = true)
                ++handlers;
        }
        BOOST_TEST_REQUIRE(handlers < most);
    }

    shut_down_early context;
    net::watchdog dog{context};
    proxy::workspaces spaces{context};
    std::atomic<bool> leaves = false;
    http::request_head const request;
    asio::ip::address const address;
    proxy::request_info const who{request, address};

    std::array<int, 2> to_client = two_sockets();  // the ends of the proxy come first
    std::array<int, 2> to_server = two_sockets();
    wire far_client{to_client[1]};
    wire far_server{to_server[1]};

    asio::cancellation_signal cancel;
    int alive = 0;
    int completions = 0;
    std::uint64_t sent = 0;
};

// Counts the bytes that it allocated and did not free.
template <class T>
struct counting_allocator {
    using value_type = T;

    explicit counting_allocator(std::size_t& b) noexcept : bytes(&b) {}
    template <class U>
    explicit(false) counting_allocator(counting_allocator<U> const& o) noexcept : bytes(o.bytes) {}
    [[nodiscard]] T* allocate(std::size_t n) const {
        *bytes += n * sizeof(T);
        return std::allocator<T>().allocate(n);
    }
    void deallocate(T* p, std::size_t n) const noexcept {
        *bytes -= n * sizeof(T);
        std::allocator<T>().deallocate(p, n);
    }
    template <class U>
    bool operator==(counting_allocator<U> const& o) const noexcept {
        return bytes == o.bytes;
    }

    std::size_t* bytes;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(the_end_of_a_tunnel)

BOOST_AUTO_TEST_CASE(comes_once_from_each_step) {
    for (auto const from : steps) {
        for (auto const how : ends) {
            BOOST_TEST_CONTEXT("step " << int(from) << ", end " << int(how)) {
                owned_tunnel one;
                one.reach(from);
                one.finish(how);
                bool const is_destroyed = how == end::destruction;
                // A direction whose bytes wait for permits is not idle.
                bool const goes_on = how == end::idle && from == step::permits;
                BOOST_TEST(one.completions == (is_destroyed || goes_on ? 0 : 1));
                BOOST_TEST(one.alive == (goes_on ? 1 : 0));
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(states_the_bytes_to_the_client) {
    owned_tunnel one;
    one.reach(step::bytes);
    one.far_client.close();
    one.far_server.close();
    one.settle();
    BOOST_TEST(one.sent == std::string("to client").size());
}

BOOST_AUTO_TEST_CASE(comes_if_a_side_accepts_no_bytes) {
    owned_tunnel one;
    one.reach(step::bytes);
    one.far_server.close();
    one.settle();
    BOOST_TEST(one.completions == 0);
    one.far_client.send("last words");
    one.settle();
    BOOST_TEST(one.completions == 1);
    BOOST_TEST(one.far_client.ended());
}

BOOST_AUTO_TEST_CASE(may_come_at_the_beginning) {
    owned_tunnel one;
    one.far_client.close();
    one.far_server.close();
    one.start(step::nothing_sent);
    BOOST_TEST(one.completions == 1);
    BOOST_TEST(one.alive == 0);
}

BOOST_AUTO_TEST_CASE(runs_a_handler_as_its_associates_state) {
    owned_tunnel one;
    net::stream const local(AF_UNIX, 0);
    net::connection client({one.context, local, one.to_client[0]}, one.dog);
    net::connection server({one.context, local, one.to_server[0]}, one.dog);
    asio::io_context another;
    std::size_t bytes = 0;
    std::size_t at_end = 1;
    proxy::tunnel::run(
        one.make(client, server),
        asio::bind_executor(
            another.get_executor(),
            asio::bind_allocator(counting_allocator<void>(bytes), [&](std::uint64_t) {
                BOOST_TEST(another.get_executor().running_in_this_thread());
                at_end = bytes;
            })));
    one.settle();
    BOOST_TEST(bytes > 0u);
    another.poll();
    BOOST_TEST(!another.stopped());  // it has the work of the handler
    one.far_client.close();
    one.far_server.close();
    one.settle();
    BOOST_TEST(at_end == 1u);
    another.poll();
    BOOST_TEST(at_end == 0u);
    BOOST_TEST(another.stopped());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace ends_of_a_tunnel
