#pragma once

#include "support/temporary_folder.hpp"

#include <boost/test/tree/decorator.hpp>
#include <boost/test/tree/test_unit.hpp>
#include <boost/test/unit_test_suite.hpp>

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace support {

/// A mariadbd of its own, in a temporary folder, which goes with it. It listens on a local socket, and on a port of
/// 127.0.0.1 that was free. The user is `root`, without a password, and the database `weir` is empty.
class mariadb_server {
public:
    explicit mariadb_server(std::vector<std::string> options = {});
    mariadb_server(mariadb_server const&) = delete;
    mariadb_server& operator=(mariadb_server const&) = delete;
    ~mariadb_server();

    [[nodiscard]] static bool is_here();

    [[nodiscard]] std::string socket() const { return folder_ / "socket"; }
    [[nodiscard]] std::uint16_t port() const noexcept { return port_; }

    /// Sends a signal: SIGKILL, SIGSTOP, SIGCONT.
    void send(int signal) const;
    /// After SIGKILL or SIGTERM: waits for its end, and starts it again with the data that it had.
    void restart();

private:
    void start();
    void wait_for_end();

    temporary_folder folder_{"weir-mariadb-"};
    std::vector<std::string> options_;
    std::uint16_t port_ = 0;
    pid_t pid_ = 0;
    int log_ = -1;
};

/// For a test that needs it.
[[nodiscard]] boost::test_tools::assertion_result if_mariadb_is_here(
    boost::unit_test::test_unit_id);

}  // namespace support
