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

/// What the server has said instead of doing it.
class sql_error : public std::runtime_error {
public:
    sql_error(int code, std::string const& text) : std::runtime_error(text), code_(code) {}
    [[nodiscard]] int code() const noexcept { return code_; }

private:
    int code_;
};

/// A session at a server: what a test says there itself, and waits for.
class sql_session {
public:
    using row = std::vector<std::string>;
    using value = std::variant<std::int64_t, std::string>;

    explicit sql_session(std::string const& socket);
    sql_session(sql_session&&) noexcept;
    sql_session& operator=(sql_session&&) = delete;
    ~sql_session();

    /// The rows that come; a null is `NULL`. Throws `sql_error`.
    std::vector<row> query(std::string_view text);
    /// The one value that comes.
    std::string value_of(std::string_view text);
    std::int64_t number(std::string_view text);

    /// Says it on another thread, since it will have to wait for another session.
    [[nodiscard]] std::future<std::vector<row>> start(std::string text);

    /// Executes a prepared statement with question marks, and says which identifier the server has given.
    std::uint64_t insert(std::string const& text, std::vector<value> const& values);

private:
    struct body;
    std::unique_ptr<body> body_;
};

/// Says `kill query` or `kill connection` of all other sessions whose row in the list of processes is like that, as far
/// as they are still there.
void kill_others(sql_session& s, std::string const& what, std::string const& condition = "true");

/// How many transactions wait for a lock, as seen by `s`; and until it is so many.
int lock_waits(sql_session& s);
void wait_for_lock_waits(sql_session& s, int how_many);

}  // namespace support
