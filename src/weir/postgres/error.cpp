#include "failures.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

namespace weir::inline v0_2::postgres {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t length = 5;
constexpr std::string_view digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

std::string state_of(int code) {
    std::string text(length, '0');
    for (auto at = text.rbegin(); at != text.rend(); ++at) {
        *at = digits[static_cast<std::size_t>(code) % digits.size()];
        code /= static_cast<int>(digits.size());
    }
    return text;
}

constexpr std::optional<int> code_of(std::string_view text) {
    if (text.size() != length)
        return std::nullopt;
    int code = 0;
    for (char const c : text) {
        auto const digit = digits.find(c);
        if (digit == digits.npos)
            return std::nullopt;
        code = code * static_cast<int>(digits.size()) + static_cast<int>(digit);
    }
    return code;
}

class category final : public boost::system::error_category {
public:
    // A random id: codes of two copies of the library in one program are equal.
    constexpr category() noexcept : error_category(0x5C0E'A1D4'90B7'3E26) {}

    char const* name() const noexcept override { return "weir.postgres"; }
    std::string message(int code) const override { return "SQLSTATE " + state_of(code); }
};

// Errors of a server, or the two digits of their class, that last until an option of the store or of the server
// changes.
constexpr std::array lasting{
    "08004"sv,  // the client rejects the server
    "0A"sv,     // a feature is not supported
    "28"sv,     // the user or the password is wrong
    "3D"sv,     // the database does not exist
    "3F"sv,     // the schema does not exist
    "42"sv,     // no privilege, no table, no column
};
// The server has ended a statement that took too long.
constexpr std::array slow{
    "40001"sv,  // overtaken by another transaction
    "40P01"sv,  // a deadlock
    "55P03"sv,  // a lock was not available
    "57014"sv,  // `statement_timeout`
};

template <class States>
bool is_any(std::string_view state, States const& states) {
    return std::ranges::any_of(states, [&](auto s) { return state.starts_with(s); });
}

// Messages of libpq itself about TLS and about options. It translates them only for programs that set the locale.
constexpr std::array of_client{
    "certificate"sv,          "SSL, but SSL was required"sv,
    "SSL required"sv,         "sslmode"sv,
    "channel binding"sv,      "authentication method"sv,
    "no password supplied"sv, "invalid connection option"sv,
    "invalid port number"sv,
};

std::string_view first_line(std::string_view text) {
    auto const end = text.find('\n');
    return end == text.npos ? text : text.substr(0, end);
}

}  // namespace

boost::system::error_category const& sqlstate_category() noexcept {
    static category const instance;
    return instance;
}

error_code make_sqlstate(std::string_view text) noexcept {
    constexpr auto internal = *code_of("XX000");
    return {code_of(text).value_or(internal), sqlstate_category()};
}

std::string sqlstate_of(error_code const& ec) {
    return ec.category() == sqlstate_category() ? state_of(ec.value()) : std::string();
}

failure_kind detail::kind_of(error_code const& ec) noexcept {
    auto const state = sqlstate_of(ec);
    if (is_any(state, lasting) || ec == boost::asio::error::operation_not_supported)
        return failure_kind::misconfigured;
    if (is_any(state, slow) || ec == boost::asio::error::timed_out)
        return failure_kind::no_reply;
    return failure_kind::refused;
}

// A message of a server is `connection to server at "db" (10.0.0.1), port 5432 failed: FATAL:  28P01: the text`, with
// more lines. Its severity may be in another language.
detail::connect_error detail::parse_connect_error(std::string_view message) {
    for (auto at = message.find(":  "); at != message.npos; at = message.find(":  ", at + 1)) {
        auto const rest = message.substr(at + 3);
        if (rest.size() <= length || rest.substr(length, 2) != ": " ||
            !code_of(rest.substr(0, length)))
            continue;
        auto text = std::string(message.substr(0, at + 3));
        text += first_line(rest.substr(length + 2));
        return {make_sqlstate(rest.substr(0, length)), std::move(text)};
    }
    bool const is_rejected = std::ranges::any_of(of_client, [&](auto part) {
        return message.find(part) != message.npos;
    });
    std::string text(first_line(message));
    return {make_sqlstate(is_rejected ? "08004" : "08001"), std::move(text)};
}

}  // namespace weir::inline v0_2::postgres
