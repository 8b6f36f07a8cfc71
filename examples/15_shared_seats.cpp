// Two processes share one seat: only its holder may write to the archive. The first process loses its connection to the
// store while it holds the seat. Its lease ends, its wait for the loss completes, and the second process gets the seat.
// A write that the first process sent earlier arrives late. The archive rejects it, because its fencing token is lower.
//
// The program uses a store in memory, on virtual time, and two limiters instead of two processes. With weir::redis or
// weir::mysql only the store is different.
//     g++ -std=c++20 15_shared_seats.cpp -o 15_shared_seats $(pkg-config --cflags --libs weir)

#include <weir/format.hpp>
#include <weir/shared/memory_store.hpp>
#include <weir/shared/seats.hpp>
#include <weir/testing.hpp>

#include <boost/asio.hpp>

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

using timer = weir::testing::timer;
using seats = weir::basic_shared_seats<asio::any_io_executor, timer>;

void say(std::string_view what) {
    auto const now = weir::testing::clock::now().time_since_epoch();
    fmt::print("{:>6.3f} s  {}\n", std::chrono::duration<double>(now).count(), what);
}

asio::awaitable<void> sleep(weir::duration d) {
    timer t(co_await asio::this_coro::executor, d);
    co_await t.async_wait(asio::use_awaitable);
}

// The connection of a process to the store. While it is cut, requests get no reply.
class cable final : public weir::store {
public:
    explicit cable(std::shared_ptr<weir::store> to) : to_(std::move(to)) {}
    void cut(bool is_cut) { is_cut_ = is_cut; }

    void async_hold(std::string const& name, seats_question const& q, seats_handler hear) override {
        if (!is_cut_)
            to_->async_hold(name, q, std::move(hear));
    }
    [[nodiscard]] bool keeps_seats() const noexcept override { return true; }
    void async_take(std::string const&, question const&, answer_handler) override {}
    void async_give_back(std::string const&, give_back const&) override {}

private:
    std::shared_ptr<weir::store> to_;
    bool is_cut_ = false;
};

// The resource behind the seat. It keeps the largest fencing token that it received, and rejects lower ones.
class archive {
public:
    void write(std::uint64_t fence, std::string_view who) {
        bool const is_good = fence >= newest_;
        if (is_good)
            newest_ = fence;
        say(fmt::format("archive: {} {}", who, is_good ? "writes" : "is rejected: it is too late"));
    }

private:
    std::uint64_t newest_ = 0;
};

asio::awaitable<void> send(archive& to, std::uint64_t fence, std::string_view who,
                           weir::duration way) {
    co_await sleep(way);
    to.write(fence, who);
}

void rethrow(std::exception_ptr failure) {
    if (failure)
        std::rethrow_exception(failure);
}

asio::awaitable<void> unlucky(seats& pen, cable& way, archive& to) {
    auto const ex = co_await asio::this_coro::executor;
    auto const seat = co_await pen.enter();
    say("one has the seat");
    co_await send(to, seat.id(), "one", 1ms);
    co_spawn(ex, send(to, seat.id(), "one, on a slow connection,", 15s), rethrow);
    way.cut(true);
    say("one loses its connection to the store");
    co_await pen.async_wait_lost(seat, asio::use_awaitable);
    say("one detects the loss of its seat");
    way.cut(false);
}

asio::awaitable<void> patient(seats& pen, archive& to) {
    co_await sleep(1s);
    auto const seat = co_await pen.enter(1min);
    say("the other one has the seat");
    co_await send(to, seat.id(), "the other one", 1ms);
    co_await sleep(10s);
}

asio::awaitable<void> careful(seats& pen) {
    co_await sleep(30s);
    auto work = []() -> asio::awaitable<int> {
        co_await sleep(20s);
        co_return 42;
    };
    auto const result =
        co_await pen.run(work, 1s);  // renews the lease; cancels the work if the seat is lost
    say(fmt::format("one worked for two leases: {}", result));
}

}  // namespace

int main() {
    try {
        asio::io_context ctx;
        auto const store = std::make_shared<weir::basic_memory_store<timer>>(ctx);
        auto const way = std::make_shared<cable>(store);
        weir::shared_seats_options const one_seat{.seats = 1, .lease = 10s};
        seats here(ctx, way, "pen", one_seat);
        seats there(ctx, store, "pen", one_seat);
        archive to;
        co_spawn(ctx, unlucky(here, *way, to), rethrow);
        co_spawn(ctx, patient(there, to), rethrow);
        co_spawn(ctx, careful(here), rethrow);
        weir::testing::run(ctx);
    } catch (std::exception const& e) {
        fmt::print(stderr, "{}\n", e.what());
        return 1;
    }
}
