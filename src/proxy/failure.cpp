#include "failure.hpp"

#include <array>
#include <cstddef>

namespace proxy {
namespace {

enum class side_at_fault : std::uint8_t { nobody, upstream, client };

struct row {
    failure is;
    side_at_fault by;
    http::fault told;
};

constexpr std::array table{
    row{failure::none, side_at_fault::nobody, {}},
    row{failure::unreachable, side_at_fault::upstream, {502, "the upstream cannot be reached"}},
    row{failure::silent,
        side_at_fault::upstream,
        {502, "the upstream has closed the connection instead of answering"}},
    row{failure::too_slow, side_at_fault::upstream, {504, "the upstream did not answer in time"}},
    row{failure::header_too_long,
        side_at_fault::upstream,
        {502, "the header of the upstream's answer is too long"}},
    row{failure::malformed, side_at_fault::upstream, {502, "the upstream's answer is not HTTP"}},
    row{failure::bad_chunks,
        side_at_fault::upstream,
        {502, "the chunks of the upstream's answer are wrong"}},
    row{failure::cut_off, side_at_fault::upstream, {502, "the upstream's answer has broken off"}},
    row{failure::body_too_slow, side_at_fault::client, {408, "the body did not come in time"}},
    row{failure::body_cut_off, side_at_fault::client, {400, "the body has ended too soon"}},
    row{failure::body_bad_chunks, side_at_fault::client, {400, "the chunks of the body are wrong"}},
    row{failure::client_ended, side_at_fault::client, {503, "the client has ended the connection"}},
    row{failure::client_gone, side_at_fault::client, {503, "the client has ended the connection"}},
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
    return row_of(f).told;
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
