#pragma once

#include "shared/server_process.hpp"
#include "support/reserved_port.hpp"
#include "support/temporary_folder.hpp"

#include <boost/test/tree/decorator.hpp>
#include <boost/test/tree/test_unit.hpp>
#include <boost/test/unit_test_suite.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace support {

/// A separate mariadbd, in a temporary folder, which is deleted with it. It listens on a local socket, and on a free
/// port of 127.0.0.1. The user is `root`, without a password, and the database `weir` is empty.
class mariadb_server {
public:
    explicit mariadb_server(std::vector<std::string> options = {});

    [[nodiscard]] static bool is_here();

    [[nodiscard]] std::string socket() const { return folder_ / "socket"; }
    [[nodiscard]] std::uint16_t port() const noexcept { return port_.number(); }

    /// Sends a signal: SIGKILL, SIGSTOP, SIGCONT.
    void send(int signal) const { process_.send(signal); }
    /// After SIGKILL or SIGTERM: waits for its end, and starts it again with its old data.
    void restart();

private:
    void start();

    temporary_folder folder_{"weir-mariadb-"};
    std::vector<std::string> options_;
    reserved_port port_;
    server_process process_;
};

/// A precondition for tests that need it.
[[nodiscard]] boost::test_tools::assertion_result if_mariadb_is_here(
    boost::unit_test::test_unit_id);

}  // namespace support
