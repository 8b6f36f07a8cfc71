// Four processes on a machine share 20,000 calls per second with all other machines, through an agent: it asks the Redis
// server for all of them. Here the agent and the processes are threads of one program.
//
//     example_28_agent_redis redis://127.0.0.1:6379
//
// The function `serve` alone is a whole agent, with a path such as /run/weir/agent.sock. 13_redis_shared does
// without an agent: each process asks the server.
//
//     g++ -std=c++20 28_agent_redis.cpp -o 28_agent_redis $(pkg-config --cflags --libs weir-redis)

#include <weir/agent/server.hpp>
#include <weir/agent/store.hpp>
#include <weir/redis/store.hpp>

#include <boost/asio.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

void rethrow(std::exception_ptr failure) {
    if (failure)
        std::rethrow_exception(failure);
}

asio::awaitable<void> make_calls(weir::agent::token_bucket& calls, int& made) {
    auto const end = std::chrono::steady_clock::now() + 1s;
    while (std::chrono::steady_clock::now() < end) {
        auto const call = co_await calls.async_enter(10s);
        ++made;
    }
}

// A process: it asks the agent, and not the server.
int calls_of_a_process(std::string const& path) {
    asio::io_context ctx;
    auto const agent = std::make_shared<weir::agent::store>(ctx, path);
    weir::agent::token_bucket calls{ctx, agent, "calls", {.rate = {20'000, 1s}, .burst = 2'000}};
    int made = 0;
    for (int i = 0; i != 8; ++i)
        co_spawn(ctx, make_calls(calls, made), rethrow);
    ctx.run();
    return made;
}

// The agent, until its context is stopped.
void serve(asio::io_context& ctx, std::string const& url, std::string const& path) {
    auto const redis = std::make_shared<weir::redis::store>(ctx, weir::redis::options{.url = url});
    weir::agent::server const agent{ctx, redis, {.path = path}};
    co_spawn(ctx, redis->check(), rethrow);  // throws if the server is unavailable
    ctx.run();
}

}  // namespace

int main(int argc, char* argv[]) {
    try {
        auto const path = fmt::format("/tmp/weir-agent-{}.sock", ::getpid());
        asio::io_context ctx;
        auto agent = std::async(std::launch::async, serve, std::ref(ctx),
                                argc > 1 ? argv[1] : "redis://127.0.0.1", path);
        std::vector<std::future<int>> processes;
        for (int i = 0; i != 4; ++i)
            processes.push_back(std::async(std::launch::async, calls_of_a_process, path));
        for (auto& one : processes)
            fmt::print("a process made {} calls\n", one.get());
        ctx.stop();
        agent.get();
    } catch (std::exception const& e) {
        fmt::print(stderr, "{}\n", e.what());
        return 1;
    }
}
