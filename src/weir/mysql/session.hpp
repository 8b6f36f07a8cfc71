#pragma once

#include <weir/error.hpp>
#include <weir/mysql/store.hpp>
#include <weir/time.hpp>

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
#include <string>
#include <string_view>
#include <vector>

namespace weir::inline v0_2::mysql::detail {

/// The settings of sessions.
struct settings {
    explicit settings(options o);

    /// Returns the time limit of a connection attempt that starts now.
    [[nodiscard]] std::chrono::steady_clock::time_point connect_until() const;

    options given;
    boost::asio::ssl::context tls;
};

/// The result of a statement.
struct outcome {
    error_code error = {};
    /// Whether it may have had an effect in spite of the error.
    bool lost = false;
};

/// Returns the values of the question marks of `text`: the name of the limiter, and the result of `value_of` for all
/// others.
template <class F>
[[nodiscard]] std::vector<boost::mysql::field_view> bound(statement_text const& text,
                                                          std::string const& name, F value_of) {
    std::vector<boost::mysql::field_view> fields;
    fields.reserve(text.parameters().size());
    for (auto const p : text.parameters()) {
        if (p == statement_text::parameter::key)
            fields.emplace_back(boost::mysql::blob_view(
                reinterpret_cast<unsigned char const*>(name.data()), name.size()));
        else
            fields.emplace_back(value_of(p));
    }
    return fields;
}

/// A connection to the server, and its state. One coroutine uses it at a time, on one strand.
class session {
    using stream = boost::asio::ssl::stream<boost::asio::generic::stream_protocol::socket>;
    using clock = std::chrono::steady_clock;

public:
    session(boost::asio::any_io_executor const& ex, std::shared_ptr<settings> s);
    session(session const&) = delete;
    session& operator=(session const&) = delete;

    /// Connects. Throws `boost::system::system_error` with the error of the server.
    boost::asio::awaitable<void> connect();
    boost::asio::awaitable<bool> is_alive();

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
