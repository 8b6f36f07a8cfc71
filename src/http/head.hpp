#pragma once

// clang-format off
#include <cstdint>  // first: the field.hpp of Boost 1.83 uses it without including it
// clang-format on

#include <boost/beast/http/field.hpp>
#include <boost/beast/http/verb.hpp>

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace http {

namespace beast = boost::beast::http;

using verb = beast::verb;  // a method

/// Why a message is not accepted: the status of the answer, and a line for people. A status of 0 is
/// for a connection that has ended, where nobody is left to be answered.
struct fault {
    unsigned status = 0;
    char const* why = nullptr;

    explicit operator bool() const noexcept { return why != nullptr; }
};

/// How the end of a body is known (RFC 9112, 6).
enum class framing : std::uint8_t { none, length, chunked, until_close };

struct field {
    beast::field id;
    bool goes_on;  // not only for this hop
    std::string_view name;
    std::string_view value;
};

/// What requests and answers have in common. The texts lie in the buffer that was parsed.
struct head {
    static constexpr std::size_t max_fields = 100;

    head() noexcept {}  // the fields are left as they are found

    [[nodiscard]] std::span<field> fields() noexcept { return {fields_.data(), count}; }
    [[nodiscard]] std::span<field const> fields() const noexcept { return {fields_.data(), count}; }

    std::size_t size = 0;  // in bytes, with the empty line
    unsigned version = 11;
    bool keep_alive = false;
    framing body = framing::none;
    std::uint64_t length = 0;
    std::size_t count = 0;
    std::array<field, max_fields> fields_;
};

struct request_head : head {
    verb method = beast::verb::unknown;
    std::string_view method_name;
    std::string_view target;  // in origin form, or `*`
    bool expects_continue = false;
    bool has_host = false;
};

struct answer_head : head {
    unsigned status = 0;
    std::string_view reason;
};

/// Finds the end of a head while its bytes come in, and the bytes that no head may hold: these are
/// reported at once, since a line that ends in a bare LF would otherwise never seem to end.
class head_scanner {
public:
    /// `text` starts with what was given before.
    [[nodiscard]] fault look(std::string_view text) noexcept;

    /// The size of the head; 0 while it has not ended.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] bool in_first_line() const noexcept { return line_ == 0; }

private:
    std::size_t line_ = 0;
    std::size_t size_ = 0;
};

/// Parses a whole head with Beast's parser, and refuses what that lets pass though RFC 9110 and 9112
/// do not, or though two servers might understand it differently. `text` is exactly the head.
[[nodiscard]] fault parse(std::string_view text, request_head& out);

/// The same for an answer to `method`; every fault is a 502.
[[nodiscard]] fault parse(std::string_view text, verb method, answer_head& out);

}  // namespace http
