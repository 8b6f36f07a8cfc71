#include "shared/workers.hpp"

#include <boost/test/unit_test.hpp>

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace support {
namespace {

constexpr auto file_variable = "WEIR_WORKER_FILE";

}  // namespace

worker::worker(std::string const& test_case, variables const& environment) {
    std::vector<std::string> texts;
    for (auto** e = environ; *e; ++e)
        texts.emplace_back(*e);
    texts.push_back(std::string(file_variable) + "=" + file().string());
    for (auto const& [key, value] : environment)
        texts.push_back(key + "=" + value);
    std::vector<char*> env;
    for (auto& t : texts)
        env.push_back(t.data());
    env.push_back(nullptr);
    std::string program = "/proc/self/exe";
    std::string which = "--run_test=" + test_case;
    std::string quiet = "--log_level=error";
    std::vector<char*> argv{program.data(), which.data(), quiet.data(), nullptr};
    if (int const failed = ::posix_spawn(&pid_, argv[0], nullptr, nullptr, argv.data(), env.data()))
        throw std::system_error(failed, std::generic_category(), "posix_spawn");
}

worker::~worker() {
    if (pid_ == 0)
        return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
}

void worker::send(int signal) const {
    ::kill(pid_, signal);
}

std::int64_t worker::first_number() const {
    for (;;) {
        std::ifstream in(file());
        std::int64_t n = 0;
        if (in >> n && in.get() == '\n')
            return n;
        siginfo_t ended{};
        if (::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            ended.si_pid != 0)
            throw std::runtime_error("a worker has ended without a word");
        std::this_thread::yield();
    }
}

std::vector<std::int64_t> worker::numbers(bool killed) {
    int status = 0;
    while (::waitpid(pid_, &status, 0) == -1 && errno == EINTR) {}
    pid_ = 0;
    BOOST_TEST((killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0)));
    std::vector<std::int64_t> all;
    std::ifstream in(file());
    for (std::int64_t n = 0; in >> n;)
        all.push_back(n);
    return all;
}

std::string worker::told(char const* name) {
    auto const* const value = std::getenv(name);
    if (!value)
        throw std::logic_error(std::string(name) + " is not set");
    return value;
}

void worker::tell(std::int64_t number) {
    static std::ofstream out(told(file_variable), std::ios::app);
    out << number << std::endl;
}

}  // namespace support
