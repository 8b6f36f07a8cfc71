#include <weir/redis/engine.hpp>

#include <boost/asio/io_context.hpp>

#include <chrono>
#include <memory>

int main() {
    boost::asio::io_context ctx;
    auto const engine = std::make_shared<weir::redis::engine>(ctx);
    weir::redis::interval tick{ctx, engine, "tick", std::chrono::seconds(3)};
    return tick.try_enter() ? 1 : 0;
}
