#include <weir/postgres/store.hpp>

#include <boost/asio/io_context.hpp>

#include <chrono>
#include <memory>

int main() {
    boost::asio::io_context ctx;
    auto const store = std::make_shared<weir::postgres::store>(ctx);
    weir::postgres::interval tick{ctx, store, "tick", std::chrono::seconds(3)};
    return tick.try_enter() ? 1 : 0;
}
