#pragma once

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace support {

/// Runs a program beside a separate server, `processes` times at the same time: the first argument with all others, and
/// with the arguments that `address_of` returns for the server. Returns the exit status for `main`: 77 if there is no
/// server, otherwise 0 if all processes end with 0.
template <class Server, class F>
int run_beside(int argc, char* argv[], int processes, F address_of) {
    if (argc < 2 || !Server::is_here())
        return 77;
    try {
        Server const server;
        std::vector<std::string> more = address_of(server);
        std::vector<char*> arguments(argv + 1, argv + argc);
        for (auto& word : more)
            arguments.push_back(word.data());
        arguments.push_back(nullptr);

        std::vector<pid_t> children;
        for (int i = 0; i != processes; ++i) {
            children.push_back(::fork());
            if (children.back() == 0) {
                ::execv(arguments.front(), arguments.data());
                ::_exit(127);
            }
        }
        int result = 0;
        for (auto const child : children) {
            int status = 0;
            ::waitpid(child, &status, 0);
            if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                result = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        }
        return result;
    } catch (std::exception const& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}

}  // namespace support
