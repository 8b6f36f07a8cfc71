// A client of an API whose limit it does not know. It follows the fields of the responses: what is left of the quota,
// and when the quota is full again. The server counts strictly, and the responses overtake each other. On virtual time,
// 1,000 calls take a moment; a real client uses `weir::server_quota` instead of the type of this example.
//     g++ -std=c++20 22_server_quota.cpp -o 22_server_quota $(pkg-config --cflags --libs weir)

#include <weir/testing.hpp>
#include <weir/weir.hpp>

#include <boost/asio.hpp>

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
namespace asio = boost::asio;
using weir::testing::clock;
using server_quota = weir::testing::limiter<weir::server_quota>;

struct response {
    int status = 200;
    std::vector<std::pair<std::string, std::string>> fields;
};

// Allows 50 calls in each 10 s.
class api {
public:
    asio::awaitable<response> call() {
        co_await wait(5ms * (++calls_ % 7));
        auto const now = clock::now().time_since_epoch();
        if (auto const window = now / 10s; window != window_) {
            window_ = window;
            left_ = 50;
        }
        bool const is_rejected = left_ == 0;
        rejected += is_rejected ? 1 : 0;
        left_ -= is_rejected ? 0 : 1;
        auto const reset = std::chrono::ceil<std::chrono::seconds>((window_ + 1) * 10s - now);
        response result{is_rejected ? 429 : 200,
                        {{"RateLimit", fmt::format("\"calls\";r={};t={}", left_, reset.count())}}};
        co_await wait(5ms * (calls_ % 5));
        co_return result;
    }

    int rejected = 0;

private:
    static asio::awaitable<void> wait(clock::duration time) {
        weir::testing::timer timer(co_await asio::this_coro::executor, time);
        co_await timer.async_wait(asio::use_awaitable);
    }

    int calls_ = 0;
    clock::rep window_ = -1;
    int left_ = 0;
};

asio::awaitable<void> worker(server_quota& quota, api& server, int& started, int& done) {
    while (started < 1'000) {
        ++started;
        auto permit = co_await quota.enter();
        auto const got = co_await server.call();
        std::vector<weir::http_field> fields;
        for (auto const& [name, value] : got.fields)
            fields.push_back({name, value});
        weir::obey(quota, std::move(permit), weir::read_rate_limit_fields(got.status, fields));
        ++done;
    }
}

int main() {
    asio::io_context context;
    server_quota quota{context};
    api server;
    int started = 0;
    int done = 0;
    for (int i = 0; i != 8; ++i)
        co_spawn(context, worker(quota, server, started, done), asio::detached);
    auto const start = clock::now();
    while (done < 1'000)
        weir::testing::run_for(context, 10ms);
    auto const took = std::chrono::duration<double>(clock::now() - start);

    // 1,000 calls fill 20 windows; the calls of the last one need not wait for its end.
    fmt::print("{} calls in {:.1f} s, {} rejected; the quota needs 190 s\n", done, took.count(),
               server.rejected);
    return server.rejected == 0 && took < 1.2 * 190s ? 0 : 1;
}
