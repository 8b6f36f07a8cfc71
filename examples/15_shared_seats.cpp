// Two processes share one seat: only its holder may write to the archive. The first process loses its connection to the
// store while it holds the seat. Its lease ends, its wait for the loss completes, and the second process gets the seat.
// A write that the first process sent earlier arrives late. The archive rejects it, because its fencing token is lower.
// The program uses a store in memory, on virtual time, and two limiters instead of two processes. With weir::redis or
// weir::mysql only the store is different.
//     g++ -std=c++20 15_shared_seats.cpp -o 15_shared_seats $(pkg-config --cflags --libs weir)

#include <weir/format.hpp>
#include <weir/shared/memory_store.hpp>
#include <weir/shared/seats.hpp>
#include <weir/testing.hpp>

#include <boost/asio.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

namespace asio = boost::asio;
using namespace std::chrono_literals;

using virtual_timer = weir::testing::timer;
using seats = weir::basic_shared_seats<asio::any_io_executor, virtual_timer>;

void say(std::string_view what) {
    auto const now = weir::testing::clock::now().time_since_epoch();
    fmt::print("{:>6.3f} s  {}\n", std::chrono::duration<double>(now).count(), what);
}

asio::awaitable<void> sleep(weir::duration d) {
    virtual_timer t(co_await asio::this_coro::executor, d);
    co_await t.async_wait(asio::use_awaitable);
}

// The connection of a process to the store. While it is cut, requests get no reply.
struct cable final : weir::store {
    explicit cable(std::shared_ptr<weir::store> end) : to(std::move(end)) {}
    void async_hold(std::string const& name, seats_question const& q, seats_handler hear) override {
        if (!is_cut)
            to->async_hold(name, q, std::move(hear));
    }
    [[nodiscard]] bool keeps_seats() const noexcept override { return true; }
    void async_take(std::string const&, question const&, answer_handler) override {}
    void async_give_back(std::string const&, give_back const&) override {}
    std::shared_ptr<weir::store> to;
    bool is_cut = false;
};

// Writes to the archive, which keeps the largest fencing token that it received, and rejects lower ones.
asio::awaitable<void> write(std::uint64_t& newest, std::uint64_t fence, std::string_view who,
                            weir::duration way) {
    co_await sleep(way);
    bool const is_good = fence >= newest;
    newest = std::max(newest, fence);
    say(fmt::format("archive: {} {}", who, is_good ? "writes" : "is rejected: it is too late"));
}

void rethrow(std::exception_ptr failure) {
    if (failure)
        std::rethrow_exception(failure);
}

asio::awaitable<void> unlucky(seats& pen, cable& way, std::uint64_t& archive) {
    auto const ex = co_await asio::this_coro::executor;
    auto const seat = co_await pen.enter();
    say("one has the seat");
    co_await write(archive, seat.id(), "one", 1ms);
    co_spawn(ex, write(archive, seat.id(), "one, on a slow connection,", 15s), rethrow);
    way.is_cut = true;
    say("one loses its connection to the store");
    co_await pen.async_wait_lost(seat, asio::use_awaitable);
    say("one detects the loss of its seat");
}

asio::awaitable<void> patient(seats& pen, std::uint64_t& archive) {
    co_await sleep(1s);
    auto seat = co_await pen.enter(1min);
    say("the other one has the seat");
    co_await write(archive, seat.id(), "the other one", 1ms);
    seat.leave();
    auto work = []() -> asio::awaitable<void> {
        co_await sleep(20s);
        say("the other one worked for two leases");
    };
    co_await pen.run(work);  // renews the lease, and would cancel the work if the seat were lost
}

int main() {
    asio::io_context ctx;
    auto const store = std::make_shared<weir::basic_memory_store<virtual_timer>>(ctx);
    auto const way = std::make_shared<cable>(store);
    weir::shared_seats_options const one_seat{.seats = 1, .lease = 10s};
    seats here(ctx, way, "pen", one_seat);
    seats there(ctx, store, "pen", one_seat);
    std::uint64_t archive = 0;
    co_spawn(ctx, unlucky(here, *way, archive), rethrow);
    co_spawn(ctx, patient(there, archive), rethrow);
    weir::testing::run(ctx);
}
