// Measures the cost of decisions by an agent: 1, 16 and 128 callers, each with its own limiter. Floor: as many messages
// of 64 bytes over a local socket, each of which a server sends back; both sides use Asio. The agent and the server run
// alone on one processor. Also measures the questions of the agent to its store.

#include <weir/agent/server.hpp>
#include <weir/agent/store.hpp>
#include <weir/shared/memory_store.hpp>

#include "in_turns.hpp"
#include "shared_callers.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using socket_type = asio::local::stream_protocol::socket;
constexpr std::size_t message_size = 64;

/// Sends all bytes of a connection back.
class echo : public std::enable_shared_from_this<echo> {
public:
    explicit echo(socket_type s) : socket_(std::move(s)) {}

    void run() {
        socket_.async_read_some(
            asio::buffer(bytes_), [self = shared_from_this()](weir::error_code ec, std::size_t n) {
                if (ec)
                    return;
                asio::write(self->socket_, asio::buffer(self->bytes_, n));
                self->run();
            });
    }

private:
    socket_type socket_;
    std::array<char, 16384> bytes_;
};

/// Has a number of messages on the way at a time.
class pings {
public:
    pings(std::string const& path, std::size_t many) : many_(many) { socket_.connect(path); }

    std::int64_t operator()(std::chrono::steady_clock::time_point until) {
        until_ = until;
        done_ = 0;
        missing_ = many_ * message_size;
        send(many_);
        receive();
        ctx_.restart();
        ctx_.run();
        return done_;
    }

private:
    void send(std::size_t n) {
        asio::write(socket_, asio::buffer(std::string(n * message_size, 'x')));
    }
    void receive() {
        socket_.async_read_some(asio::buffer(bytes_), [this](weir::error_code ec, std::size_t n) {
            if (ec)
                return;
            auto const before = (missing_ + message_size - 1) / message_size;
            missing_ -= n;
            auto const whole = before - (missing_ + message_size - 1) / message_size;
            done_ += static_cast<std::int64_t>(whole);
            if (std::chrono::steady_clock::now() < until_ && whole != 0) {
                send(whole);
                missing_ += whole * message_size;
            }
            if (missing_ != 0)
                receive();
        });
    }

    asio::io_context ctx_{1};
    socket_type socket_{ctx_};
    std::array<char, 16384> bytes_;
    std::size_t many_;
    std::size_t missing_ = 0;  // bytes on the way
    std::chrono::steady_clock::time_point until_;
    std::int64_t done_ = 0;
};

class counted_store final : public weir::store {
public:
    explicit counted_store(asio::io_context& ctx)
        : memory_(std::make_shared<weir::memory_store>(ctx)) {}

    std::atomic<std::uint64_t> questions = 0;

    void async_take(std::string const& name, question const& q, answer_handler handler) override {
        ++questions;
        memory_->async_take(name, q, std::move(handler));
    }
    void async_give_back(std::string const& name, give_back const& what) override {
        memory_->async_give_back(name, what);
    }
    void validate(weir::policy::shared_bucket const&) const override {}

private:
    std::shared_ptr<weir::memory_store> memory_;
};

}  // namespace

int main(int argc, char** argv) {
    auto const length = bench::length_of_round(argc, argv, 0.5);
    auto const path = fmt::format("/tmp/weir-bench-{}", ::getpid());
    asio::io_context ctx{1};
    auto const store = std::make_shared<counted_store>(ctx);
    weir::agent::server agent(ctx, store, {.path = path + ".agent"});
    asio::local::stream_protocol::acceptor acceptor(ctx, path + ".echo");
    auto accept = [&](auto& again) -> void {
        acceptor.async_accept([&](weir::error_code ec, socket_type s) {
            if (ec)
                return;
            std::make_shared<echo>(std::move(s))->run();
            again(again);
        });
    };
    accept(accept);
    std::jthread const servers([&] {
        bench::stay_on(0);
        ctx.run();
    });
    bench::stay_on(1);
    auto const connect = [&](asio::io_context& where) {
        return std::make_shared<weir::agent::store>(where, path + ".agent");
    };
    constexpr int rounds = 7;
    for (int const callers : {1, 16, 128}) {
        pings floor(path + ".echo", static_cast<std::size_t>(callers));
        bench::shared_callers mine(connect, bench::names(callers));
        bench::print(fmt::format("decisions, {} callers", callers),
                     bench::in_turns(rounds, length, floor, mine));
    }
    pings floor(path + ".echo", 1);
    bench::shared_callers crowd(connect, bench::names(1), 128);
    bench::print("decisions, 128 callers at one limiter",
                 bench::in_turns(rounds, length, floor, crowd));
    auto const stats = agent.stats();
    fmt::print("questions at the store per grant: {:.4f}\n",
               static_cast<double>(store->questions) / static_cast<double>(stats.grants));
    ctx.stop();
    ::unlink((path + ".echo").c_str());
    ::unlink((path + ".agent").c_str());
}
