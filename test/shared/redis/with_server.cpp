// Runs a program twice at the same time beside a separate redis-server, with the URL of the server. Exits with the
// status of the programs, or with 77 if there is no server.

#include "shared/redis/server.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <exception>
#include <string>

int main(int argc, char* argv[]) {
    if (argc != 2 || !support::redis_server::is_here())
        return 77;
    try {
        support::redis_server const server;
        auto url = server.url();
        std::array<char*, 3> const arguments{argv[1], url.data(), nullptr};
        std::array<pid_t, 2> children{};
        for (auto& child : children) {
            child = ::fork();
            if (child == 0) {
                ::execv(arguments.front(), arguments.data());
                ::_exit(127);
            }
        }
        bool good = true;
        for (auto const child : children) {
            int status = 0;
            ::waitpid(child, &status, 0);
            good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
        }
        return good ? 0 : 1;
    } catch (std::exception const& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
