#include "decision.hpp"

#include "http/characters.hpp"

#include <boost/beast/http/status.hpp>

namespace proxy {
namespace {

// The proxy reads and discards the rest of an unused body up to this size, to keep the connection.
constexpr std::uint64_t small_body = 64 * 1024;

// Returns `next::request` if the connection is kept and the rest of this request is small enough to discard.
next after_answer(http::request_head const& request, bool is_read) noexcept {
    bool const small = is_read || (request.body == http::framing::length &&
                                   request.length <= small_body && !request.expects_continue);
    return small && request.keep_alive ? next::request : next::close_gently;
}

// The first protocol that the request asks for and its route allows.
std::string_view protocol_of(http::request_head const& request, config::route const& to) noexcept {
    // The bytes after the head of an upgrade belong to the other protocol.
    if (request.body != http::framing::none)
        return {};
    auto const asked = http::upgrade_among(request, to.upgrade.to);
    for (auto const& one : to.upgrade.to)
        if (http::iequals(one, asked))
            return one;
    return {};
}

}  // namespace

decision decide(http::fault const& malformed, http::request_head const& request,
                config::route const* to) noexcept {
    namespace beast = boost::beast::http;
    if (malformed)
        return {
            .limited = false, .how = ending::malformed, .say = {malformed.status, malformed.why}};
    if (!to)
        return {.limited = false, .how = ending::routed, .say = {404, "no route matches"}};
    if (to->body_limit && request.body == http::framing::length &&
        request.length > static_cast<std::uint64_t>(*to->body_limit))
        return {.limited = false,
                .how = ending::malformed,
                .say = {413, fault_of(failure::body_too_large).why}};
    if (to->respond)
        return {.how = ending::routed,
                .say = {*to->respond,
                        beast::obsolete_reason(static_cast<beast::status>(*to->respond))}};
    auto const protocol = protocol_of(request, *to);
    return {.what = protocol.empty() ? action::forward : action::upgrade, .protocol = protocol};
}

next last_after(conclusion const& c) noexcept {
    if (c.after != next::request)
        return c.after;
    return c.say.status != 0 ? next::close_gently : next::close_if_read;
}

conclusion conclude(decision const& what, http::request_head const& request,
                    bool is_read) noexcept {
    bool const readable = what.how != ending::malformed;
    return {what.how, readable ? after_answer(request, is_read) : next::close_gently, what.say};
}

conclusion conclude(problem const& say, net::presence client, http::request_head const& request,
                    bool is_read) noexcept {
    if (client == net::presence::gone)
        return {ending::disconnected, next::close};
    if (client == net::presence::ended)
        return {ending::disconnected, next::close_gently, say};
    return {ending::rejected, after_answer(request, is_read), say};
}

conclusion conclude(relayed const& r, http::request_head const& request, bool is_read) noexcept {
    if (r.reached == progress::tunnelled)
        return {ending::answered, next::close};
    if (r.reached == progress::complete)
        return {ending::answered, r.keep_alive ? next::request
                                  : is_read    ? next::close_if_read
                                               : next::close_gently};
    auto const how = is_hang_up(r.why) ? ending::disconnected : ending::failed;
    if (r.why == failure::client_gone)
        return {how, next::close};
    if (r.reached >= progress::begun)
        return {how, r.framing == http::framing::until_close ? next::reset : next::close};
    bool const goes_on = request.keep_alive && is_read;
    return {how, goes_on ? next::request : next::close_gently, {r.said.status, r.said.why}};
}

}  // namespace proxy
