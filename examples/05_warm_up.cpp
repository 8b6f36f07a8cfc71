// A cold start. A database serves 50 queries per second after its caches have warmed up, so in the first second the
// limiter grants fewer: a third of that rate in the beginning. After a pause the database is cold again, and the
// limiter starts at the low rate.
//     g++ -std=c++20 05_warm_up.cpp -o 05_warm_up $(pkg-config --cflags --libs weir)

#include <weir/format.hpp>
#include <weir/weir.hpp>

#include <boost/asio.hpp>

#include <fmt/format.h>

#include <chrono>
#include <vector>

using namespace std::chrono_literals;
namespace asio = boost::asio;
using clock_type = weir::smooth_warming_up::clock_type;

// Starts 60 queries at once. Returns the instants at which they were granted.
std::vector<clock_type::time_point> serve(asio::io_context& context,
                                          weir::smooth_warming_up& pace) {
    std::vector<clock_type::time_point> granted;
    for (int i = 0; i != 60; ++i)
        pace.async_enter([&](weir::error_code, weir::permit) {
            granted.push_back(clock_type::now());
        });
    context.run();
    context.restart();
    return granted;
}

int main() {
    asio::io_context context;
    weir::smooth_warming_up pace{
        context, {.rate = {50, 1s}, .warm_up = 1s, .cold_factor = 3}, {.patience = weir::forever}};
    bool good = true;
    for (int day = 1; day <= 2; ++day) {
        auto const granted = serve(context, pace);
        auto const first = granted.at(10) - granted.at(0);
        auto const last = granted.at(59) - granted.at(49);
        fmt::print("day {}: the first ten queries in {}, the last ten in {}\n", day,
                   weir::readable(first), weir::readable(last));
        good = good && first > 400ms;
        asio::steady_timer pause(context, 1s);
        pause.wait();
    }
    return good ? 0 : 1;
}
