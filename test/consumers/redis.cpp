#include <weir/redis/store.hpp>

#include <boost/asio/io_context.hpp>

#include <chrono>
#include <memory>

int main() {
    boost::asio::io_context ctx;
    auto const store = std::make_shared<weir::redis::store>(ctx);
    weir::redis::interval tick{ctx, store, "tick", std::chrono::seconds(3)};
    return tick.try_enter() ? 1 : 0;
}
