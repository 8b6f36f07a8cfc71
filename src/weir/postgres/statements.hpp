#pragma once

#include <weir/policy/fed.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// The statements for the server. All times are microseconds since 1970. All numbers are whole and fit 64 bits.

namespace weir::inline v0_2::postgres::detail {

/// A statement with named parameters, as it is prepared: each `:name` in the text becomes a `$1`, `$2`...; a name that
/// occurs again has the same number.
class statement_text {
public:
    /// The parameters. `key` is of the type bytea, `state` of the type text, and all others are of the type bigint.
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
        window,
        version,
        state,
    };

    /// `name` is the name of the prepared statement.
    statement_text(char const* name, std::string_view named);

    [[nodiscard]] char const* name() const noexcept { return name_; }
    [[nodiscard]] std::string const& text() const noexcept { return text_; }
    /// Returns the parameters, `$1` first.
    [[nodiscard]] std::vector<parameter> const& parameters() const noexcept { return parameters_; }

private:
    char const* name_;
    std::string text_;
    std::vector<parameter> parameters_;
};

/// Returns the value of a parameter of the type bigint.
[[nodiscard]] std::int64_t value_of(statement_text::parameter p, policy::fed::question const& q);
[[nodiscard]] std::int64_t value_of(statement_text::parameter p, policy::fed::give_back const& r);

/// When the server saves a change: before it replies, as it is configured, or soon afterwards.
enum class saving : std::uint8_t { now, soon };

/// The statements of buckets. `take` returns one row: the number of granted permits, the time until they may be used,
/// or until they can be granted, the time of the question, and whether the row is new.
[[nodiscard]] std::string_view create_table() noexcept;
[[nodiscard]] statement_text const& take(saving when);
[[nodiscard]] statement_text const& give_back(saving when);

/// The statements of sliding logs.
[[nodiscard]] std::string_view create_log_table() noexcept;
[[nodiscard]] statement_text const& take_of_log(saving when);
[[nodiscard]] statement_text const& give_back_to_log(saving when);

/// The statements of seats.
///
/// A row has the text of a `weir::detail::seat_ledger`, and a version that grows with each write. `read_seats` returns
/// the time, the version and the text; `write_seats` changes one row if it still has that version. The server saves a
/// change before it replies, because no other holder may get the seat.
[[nodiscard]] std::string_view create_seats_table() noexcept;
[[nodiscard]] statement_text const& read_seats();
[[nodiscard]] statement_text const& make_seats();
[[nodiscard]] statement_text const& write_seats();

/// Returns the reply with the columns of `take`.
[[nodiscard]] policy::fed::answer answer_of(std::int64_t granted, std::int64_t wait,
                                            std::int64_t time, bool is_new) noexcept;

}  // namespace weir::inline v0_2::postgres::detail
