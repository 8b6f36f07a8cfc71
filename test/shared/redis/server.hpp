#pragma once

#include "shared/server_process.hpp"
#include "support/temporary_folder.hpp"

#include <boost/test/tree/decorator.hpp>
#include <boost/test/tree/test_unit.hpp>
#include <boost/test/unit_test_suite.hpp>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace support {

/// A redis-server of its own, in a temporary folder, which goes with it. It listens on a local socket, and on a port of
/// 127.0.0.1 that was free. It saves nothing, unless an option says so.
class redis_server {
public:
    explicit redis_server(std::vector<std::string> options = {});

    [[nodiscard]] static bool is_here();

    [[nodiscard]] std::string socket() const { return folder_ / "socket"; }
    [[nodiscard]] std::string url() const { return "unix:" + socket(); }
    [[nodiscard]] std::uint16_t port() const noexcept { return port_; }

    /// Sends a signal: SIGKILL, SIGSTOP, SIGCONT.
    void send(int signal) const { process_.send(signal); }
    void wait_for_end() { process_.wait_for_end(); }
    /// After its end: starts it again, with more options, until it says that it is ready.
    void start(std::vector<std::string> const& more = {},
               std::string const& ready = "Ready to accept connections");
    void restart() {
        wait_for_end();
        start();
    }

private:
    temporary_folder folder_{"weir-redis-"};
    std::vector<std::string> options_;
    std::uint16_t port_ = 0;
    server_process process_;
};

/// For a test that needs it.
[[nodiscard]] boost::test_tools::assertion_result if_redis_is_here(boost::unit_test::test_unit_id);

/// What the server has said instead of doing it.
struct redis_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// A session at a server: what a test says there itself, and waits for.
class redis_session {
public:
    explicit redis_session(redis_server const& server);
    redis_session(redis_session&&) noexcept;
    redis_session& operator=(redis_session&&) = delete;
    ~redis_session();

    /// What comes: a text, or the number or the list of them as text, with a space between them; nothing is `(nil)`. Throws
    /// `redis_error`.
    std::string say(std::vector<std::string> const& words);
    std::vector<std::int64_t> numbers(std::vector<std::string> const& words);

private:
    struct body;
    std::unique_ptr<body> body_;
};

}  // namespace support
