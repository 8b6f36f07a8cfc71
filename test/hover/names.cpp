// Each name after a mark must have documentation that an editor shows. `hover.py` asks clangd for it.
#include <weir/weir.hpp>

#include <boost/asio.hpp>

#include <chrono>
#include <string>

namespace asio = boost::asio;
using namespace std::chrono_literals;

asio::awaitable<void> use(asio::io_context& context) {
    weir::/*?*/ seats workers{
        context, {./*?*/ seats = 3}, {./*?*/ max_waiting = 100, ./*?*/ patience = 1s}};
    weir::/*?*/ token_bucket calls{context, {.rate = {10, 1s}, ./*?*/ burst = 20}};
    weir::/*?*/ sliding_log log{context, {.limit = 10, .window = 60s}};
    weir::/*?*/ keyed<std::string, weir::policy::seats> per_client{context, {.seats = 2}};

    auto one = co_await workers./*?*/ enter(150ms);
    auto two = co_await workers./*?*/ enter();
    auto three = co_await workers./*?*/ enter(2, 150ms);
    auto four = co_await workers./*?*/ async_enter(150ms, asio::use_awaitable);
    auto five = workers./*?*/ try_enter();
    auto six = co_await per_client./*?*/ enter("alice", 1s);
    auto place = calls./*?*/ reserve();
    weir::/*?*/ chain all{workers, per_client./*?*/ with("alice"), calls};
    auto seven = co_await all./*?*/ enter(1s);
    one./*?*/ leave();
    workers./*?*/ configure({.seats = 4});
    co_await workers./*?*/ async_drain(asio::use_awaitable);
    workers./*?*/ close();
    static_cast<void>(weir::errc::/*?*/ timed_out);
    static_cast<void>(workers./*?*/ stats());
}
