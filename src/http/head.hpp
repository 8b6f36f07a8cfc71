#pragma once

// clang-format off
#include <cstdint>  // first: the field.hpp of Boost 1.83 uses it without including it
// clang-format on

#include <boost/beast/http/field.hpp>
#include <boost/beast/http/verb.hpp>
#include <boost/container/static_vector.hpp>

#include <cstddef>
#include <span>
#include <string>
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
    bool goes_on;  // not only for this hop, and not written anew
    std::string_view name;
    std::string_view value;
};

/// What requests and answers have in common. The texts lie in the buffer that was parsed.
struct head {
    static constexpr std::size_t max_fields = 200;

    std::size_t size = 0;  // in bytes, with the empty line
    unsigned version = 11;
    bool keep_alive = false;
    bool upgrades = false;  // Connection names Upgrade
    framing body = framing::none;
    std::uint64_t length = 0;  // of the body, if its framing is `length`
    boost::container::static_vector<field, max_fields> fields;
};

struct request_head : head {
    verb method = verb::unknown;
    std::string_view method_name;
    std::string_view target;  // in origin form, or `*`
    std::string_view host;    // empty if none was named
    bool expects_continue = false;
};

struct answer_head : head {
    unsigned status = 0;
    std::string_view reason;
};

/// Finds the end of a head while its bytes come in, and the bytes that no head may hold: these are
/// reported at once, since a line that ends in a bare LF would otherwise never seem to end.
class head_scanner {
public:
    /// `text` starts with what was given before. What is reported depends on the bytes alone, and not
    /// on how many of them come at a time.
    [[nodiscard]] fault look(std::string_view text) noexcept;

    /// The size of the head; 0 while it has not ended.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] bool in_first_line() const noexcept { return line_ == 0; }

private:
    std::size_t line_ = 0;
    std::size_t size_ = 0;
};

/// Whether a field goes on that has an underscore in its name. There are servers behind which a program
/// cannot tell `X_Y` from `X-Y`, so that a client could pass the one for the other.
enum class underscores : bool { drop, pass };

/// Parses a whole head, and rejects what RFC 9110 and 9112 do not allow or what two servers might
/// understand differently. `text` is exactly the head. After a fault, `out` holds nothing to rely on.
[[nodiscard]] fault parse(std::string_view text, request_head& out,
                          underscores names = underscores::drop) noexcept;

/// The same for an answer to `method`; every fault is a 502. A 101 is one, unless it goes over to the protocol `upgrade`,
/// for which it was asked.
[[nodiscard]] fault parse(std::string_view text, verb method, answer_head& out,
                          std::string_view upgrade = {}) noexcept;

/// The first protocol in Upgrade that is one of `known`, as it stands there; empty if there is none, or if Connection does
/// not name Upgrade.
[[nodiscard]] std::string_view upgrade_among(head const& h,
                                             std::span<std::string const> known) noexcept;

}  // namespace http
