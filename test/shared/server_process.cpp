#include "shared/server_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace support {
namespace {

namespace fs = std::filesystem;

void check(int result, char const* what) {
    if (result != 0)
        throw std::system_error(result == -1 ? errno : result, std::generic_category(), what);
}

pid_t spawn(std::vector<std::string> const& arguments, int in, int out) {
    std::vector<char*> argv;
    for (auto const& a : arguments)
        argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    auto const pid = ::fork();
    if (pid == -1)
        throw std::system_error(errno, std::generic_category(), "fork");
    if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::dup2(in, 0);
        ::dup2(out, 1);
        ::dup2(out, 2);
        ::execv(argv[0], argv.data());
        ::_exit(127);
    }
    return pid;
}

int end_of(pid_t pid) {
    int status = 0;
    while (::waitpid(pid, &status, 0) == -1 && errno == EINTR) {}
    return status;
}

}  // namespace

server_process::~server_process() {
    if (pid_ == 0)
        return;
    ::kill(pid_, SIGKILL);
    wait_for_end();
}

void server_process::send(int signal) const {
    check(::kill(pid_, signal), "kill");
    if (signal == SIGSTOP) {  // each of its threads has stopped
        siginfo_t info{};
        check(::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WEXITED | WNOWAIT),
              "waitid");
    }
}

void server_process::wait_for_end() {
    end_of(std::exchange(pid_, 0));
    ::close(std::exchange(log_, -1));
}

void server_process::start(std::vector<std::string> const& arguments, std::string_view ready) {
    std::array<int, 2> pipe{};
    check(::pipe2(pipe.data(), O_CLOEXEC), "pipe2");
    int const in = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    pid_ = spawn(arguments, in, pipe[1]);
    ::close(in);
    ::close(pipe[1]);
    log_ = pipe[0];

    std::string said;
    for (std::array<char, 4096> part{}; said.find(ready) == said.npos;) {
        auto const n = ::read(log_, part.data(), part.size());
        if (n <= 0)
            throw std::runtime_error(arguments.front() + " did not start:\n" + said);
        said.append(part.data(), static_cast<std::size_t>(n));
    }
    // Its later output is not needed, but a full pipe must not block it.
    ::fcntl(log_, F_SETPIPE_SZ, 1 << 20);
}

int server_process::run(std::vector<std::string> const& arguments, fs::path const& in,
                        fs::path const& out) {
    int const from = ::open(in.c_str(), O_RDONLY | O_CLOEXEC);
    int const to = ::open(out.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    auto const pid = spawn(arguments, from, to);
    ::close(from);
    ::close(to);
    return end_of(pid);
}

}  // namespace support
