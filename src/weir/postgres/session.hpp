#pragma once

#include <weir/error.hpp>
#include <weir/shared/store.hpp>
#include <weir/time.hpp>

#include "../sql/session.hpp"
#include "../sql/time_limit.hpp"
#include "failures.hpp"
#include "settings.hpp"
#include "statements.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/system/system_error.hpp>

#include <libpq-fe.h>

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace weir::inline v0_2::postgres::detail {

using weir::detail::sql::outcome;
using weir::detail::sql::seats_row;
using weir::detail::sql::time_limit;

/// A connection to the server by libpq, and its state: see sql/session.hpp.
class session {
public:
    using clock = std::chrono::steady_clock;
    /// The value of a parameter.
    using argument = std::variant<std::int64_t, std::string_view>;
    using settings_type = settings;
    static constexpr char const* where = "weir::postgres";

    session(boost::asio::any_io_executor const& ex, std::shared_ptr<settings> s);
    session(session const&) = delete;
    session& operator=(session const&) = delete;
    ~session();

    boost::asio::awaitable<void> connect();
    boost::asio::awaitable<bool> is_alive();
    [[nodiscard]] bool is_broken() const noexcept { return broken_; }

    /// Returns whether the server already ends statements that take longer than `length`, to the millisecond.
    [[nodiscard]] bool limits_statements(duration length) const noexcept;
    boost::asio::awaitable<outcome> limit_statements(duration length, clock::time_point until);

    boost::asio::awaitable<outcome> take(std::string const& name, weir::store::question const& q,
                                         weir::store::answer& said, clock::time_point until);
    boost::asio::awaitable<outcome> give_back(
        std::string const& name, weir::store::give_back const& what, clock::time_point until);
    boost::asio::awaitable<outcome> read(std::string const& name, seats_row& row,
                                         clock::time_point until);
    boost::asio::awaitable<outcome> make(std::string const& name, clock::time_point until);
    boost::asio::awaitable<outcome> write(std::string const& name, seats_row const& row,
                                          clock::time_point until);
    boost::asio::awaitable<outcome> execute(std::string_view text, clock::time_point until);
    /// Returns how many rows the last statement changed.
    [[nodiscard]] std::uint64_t affected_rows() const;

    /// Returns the address of the server, and its version if it is known: `db:5432 (PostgreSQL 15.6)`.
    [[nodiscard]] std::string address() const;
    /// Returns the last error, with the address and the message of the server.
    [[nodiscard]] boost::system::system_error failure(error_code const& ec, std::string what) const;
    /// Returns the message of the server, or of libpq, for the last error; empty if there is none.
    [[nodiscard]] std::string const& text() const noexcept { return text_; }

    [[nodiscard]] static failure_kind kind_of(error_code const& ec) noexcept;
    [[nodiscard]] static bool is_conflict(error_code const& ec);
    [[nodiscard]] static bool is_of_another_version(error_code const& ec);
    [[nodiscard]] static std::span<weir::detail::sql::table const> tables() noexcept;

private:
    // The addresses of all hosts.
    boost::asio::awaitable<std::vector<target>> resolve(clock::time_point until);
    boost::asio::awaitable<connect_error> open(target const& to, clock::time_point until);
    boost::asio::awaitable<error_code> negotiate(time_limit const& limit);
    boost::asio::awaitable<void> set_up(clock::time_point until);
    void close() noexcept;

    boost::asio::awaitable<outcome> prepare(statement_text const& text, clock::time_point until);
    boost::asio::awaitable<outcome> execute(
        statement_text const& text, std::vector<argument> const& with, clock::time_point until);
    // Sends what libpq holds, and receives all results of it.
    boost::asio::awaitable<outcome> finish(clock::time_point until);
    boost::asio::awaitable<error_code> wait(boost::asio::posix::descriptor_base::wait_type what,
                                            time_limit const& limit);
    // Receives messages outside of results: libpq would print them.
    static void on_notice(void* self, PGresult const* notice);
    // Returns the error of a statement that was not sent.
    outcome unsent();
    // Returns the error of a result, and stores its message.
    error_code error_in(PGresult const& result);
    [[nodiscard]] std::int64_t number(int column) const;

    struct closer {
        void operator()(PGconn* c) const noexcept { PQfinish(c); }
    };
    struct clearer {
        void operator()(PGresult* r) const noexcept { PQclear(r); }
    };

    std::shared_ptr<settings> settings_;
    saving saving_;
    boost::asio::posix::stream_descriptor socket_;  // of libpq, which closes it
    std::unique_ptr<PGconn, closer> connection_;
    std::unique_ptr<PGresult, clearer> result_;
    std::set<statement_text const*> prepared_;
    std::int64_t limit_ = -1;  // of a statement, in milliseconds; -1 if it is unknown
    target to_;                // the last one
    connect_error error_;      // of the last name that was not found
    std::string text_;
    bool broken_ = false;
    bool is_ended_ = false;  // the server has said that it closes the connection
};

}  // namespace weir::inline v0_2::postgres::detail
