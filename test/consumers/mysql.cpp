#include <weir/mysql/engine.hpp>

#include <boost/asio/io_context.hpp>

#include <chrono>
#include <memory>

int main() {
    boost::asio::io_context ctx;
    auto const engine = std::make_shared<weir::mysql::engine>(ctx);
    weir::mysql::interval tick{ctx, engine, "tick", std::chrono::seconds(3)};
    return tick.try_enter() ? 1 : 0;
}
