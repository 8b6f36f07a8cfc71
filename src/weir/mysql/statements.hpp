#pragma once

#include <weir/policy/fed.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The statements for the server. All times are microseconds since 1970. All numbers are whole and fit 64 bits.

namespace weir::inline v0_2::mysql::detail {

/// A statement with named parameters, as it is prepared: each `:name` in the text becomes a `?`.
class statement_text {
public:
    /// The parameters, in any order.
    enum class parameter : std::uint8_t {
        key,
        least,
        most,
        ahead,
        count,
        since,
        burst,
        permit,
        drained,
        full,
        owed,
        gap,
        every,
        window,
        version,
        state,
    };

    explicit statement_text(std::string_view named);

    [[nodiscard]] std::string const& text() const noexcept { return text_; }
    /// Returns the parameters of the question marks, in order.
    [[nodiscard]] std::vector<parameter> const& parameters() const noexcept { return parameters_; }

private:
    std::string text_;
    std::vector<parameter> parameters_;
};

/// Returns the value of a parameter other than `key`.
[[nodiscard]] std::int64_t value_of(statement_text::parameter p, policy::fed::question const& q);
[[nodiscard]] std::int64_t value_of(statement_text::parameter p, policy::fed::give_back const& r);

[[nodiscard]] std::string_view create_table() noexcept;
[[nodiscard]] statement_text const& take();
[[nodiscard]] statement_text const& give_back();

/// Returns the statement that creates the table of sliding logs.
[[nodiscard]] std::string_view create_log_table() noexcept;
[[nodiscard]] statement_text const& take_of_log();
[[nodiscard]] statement_text const& give_back_to_log();

/// Returns the statement that creates the table of seats.
///
/// A row has the text of a `weir::detail::seat_ledger`, and a version that grows with each write. `read_seats` returns
/// the time, the version and the text; `write_seats` changes one row if it still has that version.
[[nodiscard]] std::string_view create_seats_table() noexcept;
[[nodiscard]] statement_text const& read_seats();
[[nodiscard]] statement_text const& make_seats();
[[nodiscard]] statement_text const& write_seats();

/// The statements of a strict interval, whose row has the time of the next grant in `at`: lock the row and return how
/// far that is ahead; insert the row; record the time.
[[nodiscard]] statement_text const& lock_interval();
[[nodiscard]] statement_text const& make_interval();
[[nodiscard]] statement_text const& stamp_interval();

/// Converts the identifier in a reply to `take`: see statements.cpp. `about` is an estimate of the server's time,
/// within half an hour.
[[nodiscard]] policy::fed::answer answer_of(std::uint64_t id, policy::fed::question const& q,
                                            std::int64_t about) noexcept;
/// Returns the time of the server in that reply, if it has one.
[[nodiscard]] std::optional<std::int64_t> time_of(std::uint64_t id, std::int64_t about) noexcept;

/// The SQL expression for the time of the server.
inline constexpr std::string_view now_text = "timestampdiff(microsecond,'1970-01-01',sysdate(6))";

}  // namespace weir::inline v0_2::mysql::detail
