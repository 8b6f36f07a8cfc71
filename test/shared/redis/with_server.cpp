// Runs a program twice at the same time beside a separate redis-server, with its URL.

#include "shared/redis/server.hpp"
#include "shared/run_beside.hpp"

#include <string>
#include <vector>

int main(int argc, char* argv[]) {
    auto const address = [](support::redis_server const& server) {
        return std::vector<std::string>{server.url()};
    };
    return support::run_beside<support::redis_server>(argc, argv, 2, address);
}
