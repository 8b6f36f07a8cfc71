#pragma once

#include <weir/error.hpp>
#include <weir/mysql/store.hpp>
#include <weir/time.hpp>

#include "../sql/session.hpp"
#include "statements.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/mysql/blob_view.hpp>
#include <boost/mysql/connection.hpp>
#include <boost/mysql/field_view.hpp>
#include <boost/mysql/results.hpp>
#include <boost/mysql/statement.hpp>
#include <boost/system/system_error.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::inline v0_2::mysql::detail {

/// The settings of sessions.
struct settings {
    explicit settings(options o);

    [[nodiscard]] amount max_connections() const noexcept { return given.max_connections; }
    [[nodiscard]] duration connect_timeout() const noexcept { return given.connect_timeout; }
    [[nodiscard]] backoff_options const& retry() const noexcept { return given.retry; }
    /// Returns the time limit of a connection attempt that starts now.
    [[nodiscard]] std::chrono::steady_clock::time_point connect_until() const;

    options given;
    boost::asio::ssl::context tls;
};

using weir::detail::sql::outcome;
using weir::detail::sql::seats_row;

/// A connection to the server, and its state: see sql/session.hpp.
class session {
    using stream = boost::asio::ssl::stream<boost::asio::generic::stream_protocol::socket>;
    using clock = std::chrono::steady_clock;

public:
    using settings_type = settings;
    static constexpr char const* where = "weir::mysql";

    session(boost::asio::any_io_executor const& ex, std::shared_ptr<settings> s);
    session(session const&) = delete;
    session& operator=(session const&) = delete;

    boost::asio::awaitable<void> connect();
    boost::asio::awaitable<bool> is_alive();

    boost::asio::awaitable<outcome> take(std::string const& name, weir::store::question const& q,
                                         weir::store::answer& said, clock::time_point until);
    boost::asio::awaitable<outcome> give_back(
        std::string const& name, weir::store::give_back const& what, clock::time_point until);
    boost::asio::awaitable<outcome> read(std::string const& name, seats_row& row,
                                         clock::time_point until);
    boost::asio::awaitable<outcome> make(std::string const& name, clock::time_point until);
    boost::asio::awaitable<outcome> write(std::string const& name, seats_row const& row,
                                          clock::time_point until);
    [[nodiscard]] std::uint64_t affected_rows() const { return result_.affected_rows(); }

    /// Executes a statement within the remaining time; `result()` has its result. After an error of the connection, or
    /// a lost outcome, the session must not be used any more.
    boost::asio::awaitable<outcome> execute(std::string_view text, clock::time_point until);
    boost::asio::awaitable<outcome> execute(statement_text const& text,
                                            std::vector<boost::mysql::field_view> const& values,
                                            clock::time_point until);
    /// Executes a statement with question marks once, within the remaining time.
    boost::asio::awaitable<outcome> execute_once(
        std::string_view text, std::vector<boost::mysql::field_view> const& values,
        clock::time_point until);

    /// Returns whether the server already ends statements that take longer than `length`, as far as it supports this.
    /// `limit_statements` sets the limit.
    [[nodiscard]] bool limits_statements(duration length) const noexcept;
    boost::asio::awaitable<outcome> limit_statements(duration length, clock::time_point until);

    [[nodiscard]] boost::mysql::results const& result() const noexcept { return result_; }
    /// Returns the address of the server, and its version if it is known: `127.0.0.1:3306 (10.11.6-MariaDB)`.
    [[nodiscard]] std::string address() const;
    /// Returns the last error, with the address and the message of the server.
    [[nodiscard]] boost::system::system_error failure(error_code const& ec,
                                                      std::string what = "weir::mysql") const;
    /// Returns the message of the server for the last error; empty if it sent none.
    [[nodiscard]] std::string text() const;
    [[nodiscard]] bool is_broken() const noexcept { return broken_; }

    [[nodiscard]] static failure_kind kind_of(error_code const& ec) noexcept;
    /// Returns whether the server rolled a statement back in a deadlock, so that it can be repeated.
    [[nodiscard]] static bool is_conflict(error_code const& ec) noexcept;
    [[nodiscard]] static bool is_of_another_version(error_code const& ec) noexcept;
    [[nodiscard]] static std::span<weir::detail::sql::table const> tables() noexcept;

    /// Returns an estimate of the server's time; `note_time` corrects it.
    [[nodiscard]] std::int64_t about() const noexcept;
    void note_time(std::int64_t now) noexcept;

private:
    boost::asio::awaitable<void> open();
    boost::asio::awaitable<void> must_execute(std::string_view text);
    boost::asio::awaitable<outcome> prepare(std::string_view text, boost::mysql::statement& made,
                                            clock::time_point until);
    boost::asio::awaitable<outcome> prepare_and_execute(
        statement_text const& text, std::vector<boost::mysql::field_view> const& values,
        clock::time_point until);
    boost::asio::awaitable<outcome> execute(boost::mysql::statement const& prepared,
                                            std::vector<boost::mysql::field_view> const& values,
                                            clock::time_point until);
    // Returns the result of a statement: after an error that did not come from the server, its effect is unknown.
    outcome note(error_code const& ec) noexcept;

    std::shared_ptr<settings> settings_;
    boost::mysql::connection<stream> connection_;
    boost::mysql::results result_;
    boost::mysql::diagnostics diagnostics_;
    std::map<statement_text const*, boost::mysql::statement> prepared_;
    duration limit_ = duration::zero();  // of a statement; 0 if there is none
    std::string version_;                // of the server
    bool is_mariadb_ = false;
    bool broken_ = false;
    std::int64_t time_ = 0;
    clock::time_point time_read_{};
};

}  // namespace weir::inline v0_2::mysql::detail
