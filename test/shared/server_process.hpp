#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace support {

/// A server program that ends with this program.
class server_process {
public:
    server_process() = default;
    server_process(server_process const&) = delete;
    server_process& operator=(server_process const&) = delete;
    ~server_process();

    /// Starts it, and returns when it has reported that it is ready.
    void start(std::vector<std::string> const& arguments, std::string_view ready);
    [[nodiscard]] pid_t pid() const noexcept { return pid_; }
    /// Sends a signal: SIGKILL, SIGSTOP, SIGCONT. After SIGSTOP it returns when the process has stopped.
    void send(int signal) const;
    /// Waits for its end, after SIGKILL or SIGTERM.
    void wait_for_end();

    /// Starts a program, with these files as its input and all of its output, and returns its exit status.
    static int run(std::vector<std::string> const& arguments, std::filesystem::path const& in,
                   std::filesystem::path const& out);

private:
    pid_t pid_ = 0;
    int log_ = -1;
};

}  // namespace support
