// Runs a program twice at the same time beside a separate PostgreSQL server, with its URL.

#include "shared/postgres/server.hpp"
#include "shared/run_beside.hpp"

#include <string>
#include <vector>

int main(int argc, char* argv[]) {
    auto const address = [](support::postgres_server const& server) {
        return std::vector<std::string>{server.url("postgres")};
    };
    return support::run_beside<support::postgres_server>(argc, argv, 2, address);
}
