// Tenants share a limit in turn. A job makes 100 calls at once to an API that allows 100 calls per second. Then a
// person makes three. Each tenant is a flow, and the limiter serves the flows in turn, so the person waits for a turn
// and not for the job. In arrival order the person would wait for a second.
//     g++ -std=c++20 14_fair_sharing.cpp -o 14_fair_sharing $(pkg-config --cflags --libs weir)

#include <weir/format.hpp>
#include <weir/weir.hpp>

#include <boost/asio.hpp>

#include <fmt/format.h>

#include <functional>
#include <string>
#include <vector>

using namespace std::chrono_literals;
namespace asio = boost::asio;

struct api {
    weir::token_bucket calls;
    std::vector<std::string> served = {};  // the tenants, in the order of the grants
};

asio::awaitable<void> call(api& to, std::string tenant) {
    auto const flow = std::hash<std::string>()(tenant);
    auto const permit = co_await to.calls.enter({1, {.flow = flow}}, 1min);
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
        co_spawn(context, call(shared, "job"), asio::detached);
    for (int i = 0; i != 3; ++i)
        co_spawn(context, call(shared, "person"), asio::detached);
    context.run();

    // The job has at most the burst, and some more turns, before the person's third call.
    std::size_t last = 0;
    for (std::size_t i = 0; i != shared.served.size(); ++i)
        if (shared.served[i] == "person")
            last = i;
    fmt::print("the person's last call was the {}th of {}\n", last + 1, shared.served.size());
    return shared.served.size() == 103 && last < 50 ? 0 : 1;
}
