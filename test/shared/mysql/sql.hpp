#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace support {

/// An error reply of the server.
class sql_error : public std::runtime_error {
public:
    sql_error(int code, std::string const& text) : std::runtime_error(text), code_(code) {}
    [[nodiscard]] int code() const noexcept { return code_; }

private:
    int code_;
};

/// A session at a server, for the statements of a test itself. It blocks until the reply.
class sql_session {
public:
    using row = std::vector<std::string>;
    using value = std::variant<std::int64_t, std::string>;

    explicit sql_session(std::string const& socket);
    sql_session(sql_session&&) noexcept;
    sql_session& operator=(sql_session&&) = delete;
    ~sql_session();

    /// Returns the rows; a null is `NULL`. Throws `sql_error`.
    std::vector<row> query(std::string_view text);
    /// Returns the only value of the result.
    std::string value_of(std::string_view text);
    std::int64_t number(std::string_view text);

    /// Executes a statement on another thread, because it will have to wait for another session.
    [[nodiscard]] std::future<std::vector<row>> start(std::string text);

    /// Executes a prepared statement with question marks, and returns the identifier that the server assigned.
    std::uint64_t insert(std::string const& text, std::vector<value> const& values);

private:
    struct body;
    std::unique_ptr<body> body_;
};

/// Executes `kill query` or `kill connection` for all other sessions whose rows in the process list match, if they
/// still exist.
void kill_others(sql_session& s, std::string const& what, std::string const& condition = "true");

/// Returns how many transactions wait for a lock, as `s` sees it; and waits until that many do.
int lock_waits(sql_session& s);
void wait_for_lock_waits(sql_session& s, int how_many);

}  // namespace support
