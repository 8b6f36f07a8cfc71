// Tenants share a limit in turn. A job makes 100 calls at once to an API that allows 100 calls per second. Then a
// person makes three. Each tenant is a flow, and the limiter serves the flows in turn, so the person waits for a turn
// and not for the job. In arrival order the person would wait for a second. A customer who pays for more has a greater
// weight: while its job and the other job wait, it gets three times as many calls.
//     g++ -std=c++20 14_fair_sharing.cpp -o 14_fair_sharing $(pkg-config --cflags --libs weir)

#include <weir/format.hpp>
#include <weir/weir.hpp>

#include <boost/asio.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

using namespace std::chrono_literals;
namespace asio = boost::asio;

struct api {
    weir::token_bucket calls;
    std::vector<std::string> served = {};  // the tenants, in the order of the grants
};

asio::awaitable<void> call(api& to, std::string tenant, int weight) {
    auto const flow = std::hash<std::string>()(tenant);
    weir::request const one(1, {.flow = flow, .weight = weight});
    auto const permit = co_await to.calls.enter(one, 1min);
    to.served.push_back(tenant);
    if (tenant == "person")
        fmt::print("person: call {} of all, after {}\n", to.served.size(),
                   weir::readable(permit.waited()));
}

int main() {
    asio::io_context context;
    api shared{weir::token_bucket{
        context, {.rate = {100, 1s}, .burst = 10}, weir::queue_options::parse("order fair")}};
    for (int i = 0; i != 100; ++i)
        co_spawn(context, call(shared, "job", 1), asio::detached);
    for (int i = 0; i != 60; ++i)
        co_spawn(context, call(shared, "customer", 3), asio::detached);
    for (int i = 0; i != 3; ++i)
        co_spawn(context, call(shared, "person", 1), asio::detached);
    context.run();

    // The calls of each tenant until the last call of another one.
    auto const until_last = [&](std::string const& tenant, std::string const& last) {
        auto const end = std::ranges::find(shared.served.rbegin(), shared.served.rend(), last);
        return std::ranges::count(shared.served.begin(), end.base(), tenant);
    };
    fmt::print("the customer's 60 calls were granted, and {} of the job's 100\n",
               until_last("job", "customer"));
    // The job has at most the burst, and some more turns, before the person's third call.
    return shared.served.size() == 163 && until_last("job", "person") < 30 &&
                   until_last("job", "customer") < 40
               ? 0
               : 1;
}
