#include "failure.hpp"

#include <array>
#include <cstddef>

namespace proxy {
namespace {

enum class side_at_fault : std::uint8_t { nobody, upstream, client };

struct row {
    failure is;
    side_at_fault by;
    http::fault fault;
};

constexpr std::array table{
    row{failure::none, side_at_fault::nobody, {}},
    row{failure::unreachable, side_at_fault::upstream, {502, "cannot connect to the upstream"}},
    row{failure::untrusted,
        side_at_fault::upstream,
        {502, "the upstream's certificate is not accepted"}},
    row{failure::tls_failed, side_at_fault::upstream, {502, "TLS to the upstream failed"}},
    row{failure::silent,
        side_at_fault::upstream,
        {502, "the upstream closed the connection without a response"}},
    row{failure::too_slow, side_at_fault::upstream, {504, "the upstream timed out"}},
    row{failure::header_too_long,
        side_at_fault::upstream,
        {502, "the upstream's response has too long a header"}},
    row{failure::malformed, side_at_fault::upstream, {502, "the upstream's response is not HTTP"}},
    row{failure::bad_chunks,
        side_at_fault::upstream,
        {502, "the upstream's response is badly chunked"}},
    row{failure::cut_off, side_at_fault::upstream, {502, "the upstream's response is incomplete"}},
    row{failure::body_too_slow, side_at_fault::client, {408, "timed out waiting for the body"}},
    row{failure::body_cut_off, side_at_fault::client, {400, "incomplete body"}},
    row{failure::body_bad_chunks, side_at_fault::client, {400, "malformed chunked body"}},
    row{failure::body_too_large, side_at_fault::client, {413, "the body is too large"}},
    row{failure::client_ended, side_at_fault::client, {503, "the client closed the connection"}},
    row{failure::client_gone, side_at_fault::client, {503, "the client closed the connection"}},
};

constexpr bool is_in_order() {
    for (std::size_t i = 0; i != table.size(); ++i)
        if (table[i].is != static_cast<failure>(i))
            return false;
    return true;
}
static_assert(is_in_order());

constexpr row const& row_of(failure f) noexcept {
    return table[static_cast<std::size_t>(f)];
}

constexpr bool is_idempotent(http::verb method) noexcept {
    switch (method) {
        case http::verb::get:
        case http::verb::head:
        case http::verb::options:
        case http::verb::trace:
        case http::verb::put:
        case http::verb::delete_:
            return true;
        default:
            return false;
    }
}

}  // namespace

http::fault fault_of(failure f) noexcept {
    return row_of(f).fault;
}

bool is_of_client(failure f) noexcept {
    return row_of(f).by == side_at_fault::client;
}

weir::outcome outcome_of(relayed const& r) noexcept {
    if (is_of_client(r.why) || has_switched(r.reached))
        return weir::outcome::ignored;
    bool const overloaded = r.status == 502 || r.status == 503 || r.status == 504;
    return r.why != failure::none || overloaded ? weir::outcome::dropped : weir::outcome::success;
}

bool may_repeat(attempt const& a) noexcept {
    return a.kept && !a.answered && !a.has_body && is_idempotent(a.method);
}

}  // namespace proxy
