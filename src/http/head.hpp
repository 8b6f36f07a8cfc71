#pragma once

#include "field_name.hpp"

// clang-format off
#include <ostream>  // first: the verb.hpp of Boost 1.83 uses it without including it
// clang-format on

#include <boost/beast/http/verb.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace http {

namespace beast = boost::beast::http;

using verb = beast::verb;  // a method

/// Why a message is rejected: the status of the response, and a line of text. The status 0 means that the connection
/// ended, so no response is possible.
struct fault {
    unsigned status = 0;
    char const* why = nullptr;

    explicit operator bool() const noexcept { return why != nullptr; }
};

/// The framing of a body: it determines where the body ends (RFC 9112, 6).
enum class framing : std::uint8_t { none, length, chunked, until_close };

struct field {
    field_name id;
    bool goes_on;  // the proxy forwards the field: it is not hop-by-hop, and not rewritten
    std::string_view name;
    std::string_view value;
};

/// The common parts of request and response headers. The texts point into the parsed buffer.
struct head {
    static constexpr std::size_t max_fields = 200;

    std::size_t size = 0;  // in bytes, with the empty line
    unsigned version = 11;
    bool keep_alive = false;
    bool upgrades = false;  // Connection names Upgrade
    framing body = framing::none;
    std::uint64_t length = 0;   // of the body, if its framing is `length`
    std::vector<field> fields;  // at most `max_fields`
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

/// Finds the end of a header while its bytes arrive, and reports bytes that no header may contain. It reports them
/// immediately, because a line that ends with a bare LF would otherwise never seem to end.
class head_scanner {
public:
    /// Scans the bytes received so far; `text` starts with the text of the previous call. The result depends only on
    /// the bytes, not on how they are divided into calls.
    [[nodiscard]] fault look(std::string_view text) noexcept;

    /// The size of the header; 0 until its end is found.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] bool in_first_line() const noexcept { return line_ == 0; }

private:
    std::size_t line_ = 0;    // where the current line begins
    std::size_t looked_ = 0;  // where the search for its end continues
    std::size_t size_ = 0;
};

/// Whether fields with an underscore in their name are forwarded. Behind some servers a program cannot distinguish
/// `X_Y` from `X-Y`, so a client could pass one for the other.
enum class underscores : bool { drop, pass };

/// Parses the complete header of a request. Rejects input that RFC 9110 and 9112 forbid, or that two servers might
/// interpret differently. `text` is exactly the header. After a fault the content of `out` is unspecified. Throws
/// `std::bad_alloc`. The memory of `out` is reused.
[[nodiscard]] fault parse(std::string_view text, request_head& out,
                          underscores names = underscores::drop);

/// Replaces the method, the target and the host of a request, after the checks of `parse`. After a fault the content of
/// `out` is unspecified. The texts must outlive `out`.
[[nodiscard]] fault readdress(request_head& out, std::string_view method, std::string_view target,
                              std::string_view host) noexcept;

/// Parses the complete header of a response to `method`, as strictly as a request. Every fault has the status 502. A
/// 101 response is a fault, unless it switches to the protocol `upgrade` that the request asked for.
[[nodiscard]] fault parse(std::string_view text, verb method, answer_head& out,
                          std::string_view upgrade = {});

/// The first protocol in Upgrade that is one of `known`, in the spelling of the header; empty if there is none, or if
/// Connection does not name Upgrade.
[[nodiscard]] std::string_view upgrade_among(head const& h,
                                             std::span<std::string const> known) noexcept;

}  // namespace http
