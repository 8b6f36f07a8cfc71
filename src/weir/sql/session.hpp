#pragma once

#include <weir/error.hpp>
#include <weir/shared/seat_ledger.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

// The common parts of the stores on databases. Such a store has a class `session`, a connection to its server, for the
// templates `connections` and `database`. One coroutine uses a session at a time, on one strand. Members of `session`:
//
// - `settings_type` has `max_connections()`, `connect_timeout()`, `retry()` and `connect_until()`.
// - `where` is the name of the library in messages.
// - `session(executor, shared_ptr<settings_type>)` is the constructor.
// - `connect()` connects, and throws `boost::system::system_error` with the error of the server.
// - `is_alive()` and `is_broken()`: a broken session must not be used any more.
// - `limits_statements(length)` and `limit_statements(length, until)` concern the longest time of a statement.
// - `take(name, question, until)` and `give_back(name, what, until)` are as in `weir::store`.
// - `read(name, row, until)`, `make(name, until)` and `write(name, row, until)` use a row of seats.
// - `execute(text, until)` runs a statement without parameters. `affected_rows()` counts the rows that it changed.
// - `address()` names the server, `failure(error, what)` is the exception of the last error, `text()` its message.
// - `kind_of(error)`, `is_conflict(error)` and `is_of_another_version(error)` are static.
// - `tables()` returns the tables, and is static.

namespace weir::inline v0_2::detail::sql {

using clock = std::chrono::steady_clock;

/// The result of a statement.
struct outcome {
    error_code error = {};
    /// Whether it may have had an effect in spite of the error.
    bool lost = false;
};

/// The result of a question.
template <class Answer>
struct reply_of {
    error_code error;
    Answer said;
};

/// A row of seats, as it was read.
struct seats_row {
    bool is_there = false;
    std::int64_t now = 0;
    std::int64_t version = 0;
    std::optional<seat_ledger> ledger = {};  // none: the text is not a ledger
};

/// A table of a store.
struct table {
    std::string_view name;
    std::string_view look;   // at its columns
    std::string_view write;  // nothing
    std::string_view create;
};

}  // namespace weir::inline v0_2::detail::sql
