// Runs a program beside a separate mariadbd, with the arguments that tell the examples its address.

#include "shared/mysql/server.hpp"
#include "shared/run_beside.hpp"

#include <string>
#include <vector>

int main(int argc, char* argv[]) {
    auto const address = [](support::mariadb_server const& server) {
        return std::vector<std::string>{
            "--socket", server.socket(), "--user", "root", "--database", "weir"};
    };
    return support::run_beside<support::mariadb_server>(argc, argv, 1, address);
}
