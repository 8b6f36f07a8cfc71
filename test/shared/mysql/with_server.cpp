// Runs a program beside a separate mariadbd: with the given arguments, and the arguments that tell the examples the
// address of the server. Exits with the status of the program, or with 77 if there is no server.

#include "shared/mysql/server.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

int main(int argc, char* argv[]) {
    if (argc < 2 || !support::mariadb_server::is_here())
        return 77;
    try {
        support::mariadb_server const server;
        std::vector<std::string> more{
            "--socket", server.socket(), "--user", "root", "--database", "weir"};
        std::vector<char*> arguments(argv + 1, argv + argc);
        for (auto& word : more)
            arguments.push_back(word.data());
        arguments.push_back(nullptr);

        auto const child = ::fork();
        if (child == 0) {
            ::execv(arguments.front(), arguments.data());
            ::_exit(127);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    } catch (std::exception const& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
