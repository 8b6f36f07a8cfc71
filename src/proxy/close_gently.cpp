#include "close_gently.hpp"

#include <array>

namespace proxy {

net::task<> close_gently(net::connection& client, net::clock::duration silence,
                         net::clock::duration most) {
    {
        net::time_limit const limit(client, net::direction::writing, silence);
        if (co_await client.end_output())
            co_return;
    }
    // All connections of the thread share it, because no function reads these bytes.
    thread_local std::array<char, 16 * 1024> nowhere;
    auto const end = net::clock::now() + most;
    for (bool silent = false; !silent && net::clock::now() < end;) {
        net::time_limit const limit(client, net::direction::reading, silence);
        auto const [ec, n] = co_await client.receive(nowhere);
        silent = bool(ec);
    }
}

}  // namespace proxy
