#pragma once

#include <weir/policy/fed.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// What is said to the server. All times are microseconds since 1970, all numbers are whole and fit 64 bits.

namespace weir::mysql::detail {

/// A statement with named parameters, as it is prepared: each `:name` in the text has become a `?`.
class statement_text {
public:
    /// The parameters that there are, in any order.
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
    /// What the question marks stand for.
    [[nodiscard]] std::vector<parameter> const& parameters() const noexcept { return parameters_; }

private:
    std::string text_;
    std::vector<parameter> parameters_;
};

/// The value of a parameter but `key`.
[[nodiscard]] std::int64_t value_of(statement_text::parameter p, policy::fed::question const& q);
[[nodiscard]] std::int64_t value_of(statement_text::parameter p, policy::fed::give_back const& r);

[[nodiscard]] std::string_view create_table() noexcept;
[[nodiscard]] statement_text const& take();
[[nodiscard]] statement_text const& give_back();

/// The same of sliding logs.
[[nodiscard]] std::string_view create_log_table() noexcept;
[[nodiscard]] statement_text const& take_of_log();
[[nodiscard]] statement_text const& give_back_to_log();

/// The same of seats: a row has the text of a `weir::detail::seat_ledger`, and a version, which grows each time that it is
/// written. `read_seats` gives the time, the version and the text; `write_seats` changes one row if it still has
/// that version.
[[nodiscard]] std::string_view create_seats_table() noexcept;
[[nodiscard]] statement_text const& read_seats();
[[nodiscard]] statement_text const& make_seats();
[[nodiscard]] statement_text const& write_seats();

/// Of a strict interval, whose row has the time of the next one in `at`: locks the row and says how far that is ahead;
/// makes the row; stamps it.
[[nodiscard]] statement_text const& lock_interval();
[[nodiscard]] statement_text const& make_interval();
[[nodiscard]] statement_text const& stamp_interval();

/// What the identifier says that the server answers `take` with: see statements.cpp. `about` is what the time of
/// the server is about: within half an hour.
[[nodiscard]] policy::fed::answer answer_of(std::uint64_t id, policy::fed::question const& q,
                                            std::int64_t about) noexcept;
/// The time of the server in that answer, if it has one.
[[nodiscard]] std::optional<std::int64_t> time_of(std::uint64_t id, std::int64_t about) noexcept;

/// The time of the server.
inline constexpr std::string_view now_text = "timestampdiff(microsecond,'1970-01-01',sysdate(6))";

}  // namespace weir::mysql::detail
