#include <weir/agent/server.hpp>
#include <weir/agent/store.hpp>
#include <weir/shared/limiter.hpp>

#include "shared/agent/place.hpp"
#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/visit.hpp"
#include "weir/agent/frames.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/write.hpp>
#include <boost/system/system_error.hpp>
#include <boost/test/unit_test.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace std::string_view_literals;
using namespace weir::agent::detail;
using std::chrono::steady_clock;
using support::agent_process;

take question(std::uint64_t id, std::string name = "calls", weir::amount n = 1) {
    return {.id = id,
            .name = std::move(name),
            .bucket = {.drained = 1, .permit = 10, .burst = 10'000},  // 100,000 per second
            .min = n,
            .max = n,
            .ahead = 1s,
            .timeout = 10s};
}

// A client that may break the protocol.
class raw_client {
public:
    explicit raw_client(std::string const& path) { socket_.connect(path); }

    void send(std::string_view bytes) {
        weir::error_code ignored;
        asio::write(socket_, asio::buffer(bytes), ignored);
    }
    void send(message const& m) {
        std::string bytes;
        encode(bytes, m);
        send(bytes);
    }
    // The next message; nothing at the end of the connection.
    std::optional<message> receive() {
        for (;;) {
            if (auto m = in_.next())
                return m;
            BOOST_TEST_REQUIRE(!in_.is_invalid());
            std::array<char, 4096> part;
            weir::error_code ec;
            auto const n = socket_.read_some(asio::buffer(part), ec);
            if (ec)
                return {};
            in_.add({part.data(), n});
        }
    }
    answer reply() {
        auto const m = receive();
        BOOST_TEST_REQUIRE(m.has_value());
        return std::get<answer>(*m);
    }

private:
    asio::io_context ctx_;
    asio::local::stream_protocol::socket socket_{ctx_};
    frame_reader in_;
};

struct own_agent {
    agent_process home;
    raw_client client() const { return raw_client(home.path()); }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(agent_server, own_agent)

BOOST_AUTO_TEST_CASE(questions_get_replies_by_their_ids) {
    auto one = client();
    std::string bytes;
    encode(bytes, hello());
    for (std::uint64_t const id : {7U, 3U, 1'000'000U})
        encode(bytes, question(id, "limit " + std::to_string(id)));
    for (auto const c : bytes)  // one byte at a time
        one.send(std::string_view(&c, 1));
    std::vector<std::uint64_t> ids;
    for (int i = 0; i != 3; ++i) {
        auto const a = one.reply();
        BOOST_TEST((a.what == answer::result::decided));
        BOOST_TEST(a.granted == 1);
        BOOST_TEST(a.since > 0);
        ids.push_back(a.id);
    }
    std::ranges::sort(ids);
    BOOST_TEST((ids == std::vector<std::uint64_t>{3, 7, 1'000'000}));
}

BOOST_AUTO_TEST_CASE(question_without_permits_is_held_and_then_answered) {
    auto one = client();
    one.send(hello());
    auto all = question(1, "calls", 10'000);
    all.bucket.permit = 1'000;  // 1,000 per second
    one.send(all);
    BOOST_TEST(one.reply().granted == 10'000);
    auto next = question(2, "calls", 5'000);
    next.bucket = all.bucket;
    next.ahead = 60s;
    next.timeout = 100ms;
    auto const begin = steady_clock::now();
    one.send(next);
    auto const a = one.reply();
    BOOST_TEST((steady_clock::now() - begin >= 50ms));
    BOOST_TEST(a.id == 2u);
    BOOST_TEST((a.what == answer::result::decided));
    BOOST_TEST(a.granted == 0);
    BOOST_TEST((a.wait == 0us));
    // Permits that will never come in time are rejected at once, with the time until they come.
    next.id = 3;
    next.ahead = 0us;
    next.min = next.max = 9'000;
    one.send(next);
    auto const never = one.reply();
    BOOST_TEST(never.granted == 0);
}

BOOST_AUTO_TEST_CASE(clients_that_break_the_protocol_are_disconnected_and_harm_no_other) {
    auto good = client();
    good.send(hello());
    std::string first;
    encode(first, hello());
    std::string early;
    encode(early, question(1));
    std::string answer_of_a_client = first;
    encode(answer_of_a_client, answer{.id = 1, .granted = 1, .since = 1});
    for (auto const& bytes :
         {std::string("\0\0\0\0"sv), std::string("\xff\xff\xff\xff"sv), early, first + first,
          answer_of_a_client, first + std::string("\1\0\0\0\x09"sv),
          std::string("GET / HTTP/1.1\r\n\r\n")}) {
        auto bad = client();
        bad.send(bytes);
        BOOST_TEST(!bad.receive());
        good.send(question(5));
        BOOST_TEST(good.reply().granted == 1);
    }
    auto old = client();
    old.send(hello{2});
    auto const last = old.receive();
    BOOST_TEST_REQUIRE(last.has_value());
    BOOST_TEST(std::get<goodbye>(*last).text ==
               "the agent speaks version 1, this program version 2");
    BOOST_TEST(!old.receive());
}

BOOST_AUTO_TEST_CASE(random_bytes_do_no_harm) {
    support::for_each_seed(1, 30, [&](auto& random) {
        auto bad = client();
        std::string bytes;
        encode(bytes, hello());
        for (int i = 0; i != 20; ++i)
            encode(bytes, question(static_cast<std::uint64_t>(i)));
        for (int i = 0; i != 5; ++i)
            bytes[static_cast<std::size_t>(
                random.between(0, static_cast<std::int64_t>(bytes.size()) - 1))] =
                static_cast<char>(random.between(0, 255));
        bad.send(bytes);
    });
    auto good = client();
    good.send(hello());
    good.send(question(1));
    BOOST_TEST(good.reply().granted == 1);
}

BOOST_AUTO_TEST_CASE(client_that_never_reads_is_disconnected_before_it_takes_much_memory) {
    auto bad = client();
    bad.send(hello());
    bad.send(question(1));
    BOOST_TEST(bad.reply().granted == 1);
    std::string bytes;
    for (int i = 0; i != 1000; ++i)
        encode(bytes, question(1));
    for (int i = 0; i != 200 && home.agent().stats().connections == 1; ++i)
        bad.send(bytes);
    auto const end = steady_clock::now() + 60s;
    while (home.agent().stats().connections != 0 && steady_clock::now() < end)
        std::this_thread::sleep_for(1ms);
    BOOST_TEST(home.agent().stats().connections == 0);
}

BOOST_AUTO_TEST_CASE(number_of_unanswered_questions_is_bounded) {
    auto one = client();
    home.store().memory->behave({.what = weir::store_conduct::fate::answer_lost});
    std::string bytes;
    encode(bytes, hello());
    for (std::uint64_t id = 1; id <= 16'400; ++id) {
        auto slow = question(id);
        slow.bucket.permit = 1'000'000'000;
        slow.timeout = 60s;
        encode(bytes, slow);
    }
    std::jthread const sender([&] { one.send(bytes); });
    auto const a = one.reply();
    BOOST_TEST(a.id == 16'385u);
    BOOST_TEST((a.what == answer::result::refused));
    BOOST_TEST(a.text == "too many questions of one process wait");
}

// A long line must not make each further question slower.
BOOST_AUTO_TEST_CASE(many_questions_of_one_process_wait_for_one_limit) {
    auto one = client();
    one.send(hello());
    one.send(question(1, "calls", 10'000));
    BOOST_TEST(one.reply().granted == 10'000);
    std::string bytes;
    for (std::uint64_t id = 2; id != 10'002; ++id)
        encode(bytes, question(id));
    std::jthread const sender([&] { one.send(bytes); });
    weir::amount granted = 0;
    for (int i = 0; i != 10'000; ++i)
        granted += one.reply().granted;
    BOOST_TEST(granted > 0);
}

// Otherwise the client would take the agent for one that was stopped, and would send nothing more.
BOOST_AUTO_TEST_CASE(question_without_a_reply_of_the_store_gets_one_in_time) {
    auto one = client();
    one.send(hello());
    home.store().memory->behave({.what = weir::store_conduct::fate::answer_lost});
    auto slow = question(1);
    slow.bucket.permit = 1'000'000'000;
    slow.timeout = 100ms;
    one.send(slow);
    BOOST_TEST((one.reply().what == answer::result::no_reply));
    // A late grant returns to the store.
    home.store().memory->behave({.back = 200ms});
    slow.id = 2;
    one.send(slow);
    BOOST_TEST((one.reply().what == answer::result::no_reply));
    auto const end = steady_clock::now() + 60s;
    while (home.store().returned == 0 && steady_clock::now() < end)
        std::this_thread::sleep_for(1ms);
    BOOST_TEST(home.store().returned == 1);
}

BOOST_AUTO_TEST_CASE(invented_names_take_bounded_memory) {
    agent_process small({.max_limits = 10});
    raw_client one(small.path());
    one.send(hello());
    for (std::uint64_t id = 1; id != 100; ++id) {
        one.send(question(id, "limit " + std::to_string(id)));
        BOOST_TEST(one.reply().granted == 1);
        BOOST_TEST(small.agent().stats().limits <= 10);
    }
}

BOOST_AUTO_TEST_CASE(connections_beyond_the_maximum_wait) {
    agent_process small({.max_connections = 1});
    auto first = std::make_optional<raw_client>(small.path());
    first->send(hello());
    first->send(question(1));
    BOOST_TEST(first->reply().granted == 1);
    raw_client second(small.path());
    second.send(hello());
    second.send(question(1));
    BOOST_TEST(small.agent().stats().connections == 1);
    first.reset();
    BOOST_TEST(second.reply().granted == 1);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(agent_socket)

BOOST_AUTO_TEST_CASE(socket_has_the_rights_of_the_options_and_ends_with_the_agent) {
    support::temporary_folder const folder("weir-agent-");
    auto const path = (folder / "agent").string();
    for (unsigned const mode : {0600U, 0660U, 0666U}) {
        asio::io_context ctx;
        auto const store = std::make_shared<weir::memory_store>(ctx);
        {
            weir::agent::server const agent(ctx, store, {.path = path, .mode = mode});
            struct stat found{};
            BOOST_TEST_REQUIRE(::stat(path.c_str(), &found) == 0);
            BOOST_TEST((found.st_mode & 0777U) == mode);
            BOOST_CHECK_THROW(weir::agent::server(ctx, store, {.path = path}),
                              boost::system::system_error);
            BOOST_TEST(std::filesystem::exists(path));
        }
        ctx.run();
        BOOST_TEST(!std::filesystem::exists(path));
    }
}

BOOST_AUTO_TEST_CASE(socket_of_a_killed_agent_is_replaced_and_another_file_is_not) {
    support::temporary_folder const folder("weir-agent-");
    auto const path = (folder / "agent").string();
    asio::io_context ctx;
    auto const store = std::make_shared<weir::memory_store>(ctx);
    { asio::local::stream_protocol::acceptor const killed(ctx, path); }
    BOOST_TEST_REQUIRE(std::filesystem::is_socket(path));
    { weir::agent::server const agent(ctx, store, {.path = path}); }
    ctx.run();
    std::ofstream(path) << "data";
    BOOST_CHECK_THROW(weir::agent::server(ctx, store, {.path = path}), boost::system::system_error);
    BOOST_TEST(std::filesystem::file_size(path) == 4u);
}

BOOST_AUTO_TEST_CASE(invalid_options_are_refused) {
    support::temporary_folder const folder("weir-agent-");
    auto const path = (folder / "agent").string();
    asio::io_context ctx;
    auto const store = std::make_shared<weir::memory_store>(ctx);
    for (auto const& wrong : std::vector<weir::agent::server_options>{
             {},
             {.path = std::string(108, 'x')},
             {.path = path, .mode = 01000},
             {.path = path, .lease = 999us},
             {.path = path, .lease = 61s},
             {.path = path, .max_connections = 0},
             {.path = path, .max_connections = 100'001},
             {.path = path, .max_limits = 0},
             {.path = path, .max_limits = 10'000'001}})
        BOOST_CHECK_THROW(weir::agent::server(ctx, store, wrong), std::invalid_argument);
    BOOST_CHECK_THROW(weir::agent::server(ctx, nullptr, {.path = path}), std::invalid_argument);
    BOOST_TEST(!std::filesystem::exists(path));
}

// One step more each time, from before the first message until everything has ended.
BOOST_AUTO_TEST_CASE(context_and_agent_end_at_any_moment) {
    support::temporary_folder const folder("weir-agent-");
    auto const path = (folder / "agent").string();
    for (bool agent_first : {true, false}) {
        bool over = false;
        for (int steps = 0; !over; ++steps) {
            auto ctx = std::make_unique<asio::io_context>();
            auto const store = std::make_shared<weir::memory_store>(*ctx);
            auto agent = std::make_unique<weir::agent::server>(
                *ctx, store, weir::agent::server_options{.path = path});
            auto const near = std::make_shared<weir::agent::store>(*ctx, path);
            weir::agent::token_bucket fast(*ctx, near, "fast", {.rate = {1000, 1s}, .burst = 2});
            weir::agent::token_bucket slow(*ctx, near, "slow", {.rate = {10, 1s}, .burst = 2});
            std::vector<support::visit> guests;
            for (int i = 0; i != 3; ++i) {
                guests.emplace_back(fast, 1, 10s);
                guests.emplace_back(slow, 1, 10s);
            }
            for (int i = 0; i != steps && ctx->run_one_for(10s) != 0; ++i) {}
            over = true;
            for (auto const& g : guests)
                over = over && g.over();
            if (agent_first) {
                agent.reset();
                ctx->poll();
            }
            ctx.reset();
            for (auto const& g : guests)
                BOOST_TEST((g.over() || g.dropped()));
            BOOST_TEST_REQUIRE(steps < 10'000);
        }
    }
}

BOOST_AUTO_TEST_CASE(agent_outlives_its_context_and_the_one_of_its_store) {
    support::temporary_folder const folder("weir-agent-");
    auto const path = (folder / "agent").string();
    auto far = std::make_unique<asio::io_context>();
    auto near = std::make_unique<asio::io_context>();
    auto const store = std::make_shared<weir::memory_store>(*far);
    weir::agent::server agent(*near, store, {.path = path});
    asio::io_context ctx;
    weir::agent::token_bucket slow(ctx, std::make_shared<weir::agent::store>(ctx, path), "slow",
                                   {.rate = {1, 1h}, .burst = 2});
    support::visit const guest(slow, 1, 100ms);
    for (int i = 0; i != 100; ++i) {  // the question waits at the store
        near->poll();
        ctx.poll();
    }
    near.reset();
    far->poll();
    far.reset();
    BOOST_TEST(agent.stats().connections == 0);
    agent.close();
    ctx.run();
    BOOST_TEST(guest.over());
}

BOOST_AUTO_TEST_CASE(threads_may_serve_and_ask_at_the_same_time) {
    support::temporary_folder const folder("weir-agent-");
    auto const path = (folder / "agent").string();
    asio::thread_pool threads(4);
    auto const store = std::make_shared<weir::memory_store>(threads);
    auto agent = std::make_unique<weir::agent::server>(
        threads, store, weir::agent::server_options{.path = path});
    auto const near = std::make_shared<weir::agent::store>(threads, path);
    std::vector<std::unique_ptr<weir::agent::token_bucket>> limiters;
    for (int i = 0; i != 8; ++i)
        limiters.push_back(std::make_unique<weir::agent::token_bucket>(
            threads, near, i % 2 == 0 ? "fast" : "slow",
            i % 2 == 0 ? weir::shared_options{.rate = {100'000, 1s}, .burst = 1000}
                       : weir::shared_options{.rate = {1, 1h}, .burst = 10'000}));
    std::atomic<int> granted = 0;
    std::atomic<int> others = 0;
    for (int round = 0; round != 20; ++round)
        for (auto& one : limiters)
            for (int i = 0; i != 10; ++i)
                one->async_enter(
                    60s, [&, refunds = round % 3 == 0](weir::error_code ec, weir::permit p) {
                        ++(ec ? others : granted);
                        if (refunds)
                            p.refund();
                    });
    while (granted + others != 1600)
        std::this_thread::sleep_for(1ms);
    agent.reset();
    limiters.clear();
    threads.join();
    BOOST_TEST(granted == 1600);
}

BOOST_AUTO_TEST_SUITE_END()
