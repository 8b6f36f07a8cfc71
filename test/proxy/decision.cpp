#include "proxy/decision.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

using net::presence;
using proxy::action;
using proxy::conclude;
using proxy::decide;
using proxy::ending;
using proxy::failure;
using proxy::fault_of;
using proxy::last_after;
using proxy::next;
using proxy::progress;
using proxy::relayed;

namespace proxy {

static std::ostream& operator<<(std::ostream& out, next n) {
    constexpr std::array names{"request", "close", "close_if_read", "close_gently", "reset"};
    return out << names.at(static_cast<std::size_t>(n));
}
static std::ostream& operator<<(std::ostream& out, ending e) {
    constexpr std::array names{
        "answered", "routed", "rejected", "disconnected", "failed", "malformed"};
    return out << names.at(static_cast<std::size_t>(e));
}

}  // namespace proxy

namespace {

// A request that owns its texts.
struct asked {
    std::string text;
    http::request_head head;

    explicit asked(std::string t) : text(std::move(t)) { BOOST_REQUIRE(!http::parse(text, head)); }
    asked(std::string_view method, std::string_view fields)
        : asked(std::string(method) + " / HTTP/1.1\r\nHost: a\r\n" + std::string(fields) + "\r\n") {
    }
    asked() : asked("GET", "") {}
};

config::route to_upstream() {
    config::route r;
    r.upstream = "a";
    return r;
}

constexpr http::fault fine{};

// ---- The decision on a request

BOOST_AUTO_TEST_CASE(an_invalid_request_gets_its_fault_and_passes_no_limit) {
    auto const to = to_upstream();
    auto const d = decide({431, "too long"}, asked().head, &to);
    BOOST_CHECK(d.what == action::answer);
    BOOST_TEST(!d.limited);
    BOOST_TEST(d.how == ending::malformed);
    BOOST_TEST(d.say.status == 431u);
    BOOST_TEST(d.say.why == "too long");
}

BOOST_AUTO_TEST_CASE(without_a_matching_route_it_gets_404_and_passes_no_limit) {
    auto const d = decide(fine, asked().head, nullptr);
    BOOST_CHECK(d.what == action::answer);
    BOOST_TEST(!d.limited);
    BOOST_TEST(d.how == ending::routed);
    BOOST_TEST(d.say.status == 404u);
}

BOOST_AUTO_TEST_CASE(a_route_may_respond_itself_after_its_limits) {
    config::route to;
    to.respond = 403;
    auto const d = decide(fine, asked().head, &to);
    BOOST_CHECK(d.what == action::answer);
    BOOST_TEST(d.limited);
    BOOST_TEST(d.how == ending::routed);
    BOOST_TEST(d.say.status == 403u);
    BOOST_TEST(d.say.why == "Forbidden");
}

BOOST_AUTO_TEST_CASE(other_requests_are_forwarded_after_the_limits) {
    auto const to = to_upstream();
    auto const d = decide(fine, asked().head, &to);
    BOOST_CHECK(d.what == action::forward);
    BOOST_TEST(d.limited);
    BOOST_TEST(d.protocol == "");
}

BOOST_AUTO_TEST_CASE(an_upgrade_is_requested_if_the_route_allows_it) {
    auto to = to_upstream();
    asked const websocket("GET", "Connection: Upgrade\r\nUpgrade: WebSocket\r\n");
    BOOST_CHECK(decide(fine, websocket.head, &to).what == action::forward);
    to.upgrade.to = {"other"};
    BOOST_CHECK(decide(fine, websocket.head, &to).what == action::forward);
    to.upgrade.to = {"other", "websocket"};
    auto const d = decide(fine, websocket.head, &to);
    BOOST_CHECK(d.what == action::upgrade);
    BOOST_TEST(d.protocol == "websocket");  // as the configuration spells it
    BOOST_TEST(d.limited);
}

BOOST_AUTO_TEST_CASE(a_request_with_a_body_requests_no_upgrade) {
    auto to = to_upstream();
    to.upgrade.to = {"websocket"};
    asked const post("POST", "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n");
    BOOST_CHECK(decide(fine, post.head, &to).what == action::forward);
}

// ---- The next step of the connection

// After a response of the proxy itself.
next behind_404(asked const& request, bool is_read) {
    return conclude(decide(fine, request.head, nullptr), request.head, is_read).after;
}

BOOST_AUTO_TEST_CASE(
    after_an_answer_of_its_own_the_connection_goes_on_if_little_of_the_body_is_left) {
    BOOST_TEST(behind_404(asked(), true) == next::request);
    BOOST_TEST(behind_404(asked("POST", "Content-Length: 65536\r\n"), false) == next::request);
    BOOST_TEST(behind_404(asked("POST", "Content-Length: 65537\r\n"), false) == next::close_gently);
    BOOST_TEST(behind_404(asked("POST", "Content-Length: 65537\r\n"), true) == next::request);
    BOOST_TEST(behind_404(asked("POST", "Transfer-Encoding: chunked\r\n"), false) ==
               next::close_gently);
    BOOST_TEST(behind_404(asked("POST", "Transfer-Encoding: chunked\r\n"), true) == next::request);
}

BOOST_AUTO_TEST_CASE(a_client_that_waits_for_100_sends_no_body_to_discard) {
    asked const waits("POST", "Content-Length: 5\r\nExpect: 100-continue\r\n");
    BOOST_TEST(behind_404(waits, false) == next::close_gently);
    BOOST_TEST(behind_404(waits, true) == next::request);
}

BOOST_AUTO_TEST_CASE(a_client_that_wants_to_close_is_closed) {
    BOOST_TEST(behind_404(asked("GET", "Connection: close\r\n"), true) == next::close_gently);
}

BOOST_AUTO_TEST_CASE(nothing_is_read_after_an_invalid_request) {
    asked const request;
    auto const end = conclude(decide({400, "no"}, request.head, nullptr), request.head, true);
    BOOST_TEST(end.how == ending::malformed);
    BOOST_TEST(end.after == next::close_gently);
    BOOST_TEST(end.say.status == 400u);
}

BOOST_AUTO_TEST_CASE(a_rejected_client_gets_a_response_if_it_may_still_read) {
    asked const request;
    proxy::problem const say{429, "no permit is available"};
    auto const here = conclude(say, presence::here, request.head, true);
    BOOST_TEST(here.how == ending::rejected);
    BOOST_TEST(here.after == next::request);
    BOOST_TEST(here.say.status == 429u);
    auto const ended = conclude(say, presence::ended, request.head, true);
    BOOST_TEST(ended.how == ending::disconnected);
    BOOST_TEST(ended.after == next::close_gently);
    BOOST_TEST(ended.say.status == 429u);
    auto const gone = conclude(say, presence::gone, request.head, true);
    BOOST_TEST(gone.how == ending::disconnected);
    BOOST_TEST(gone.after == next::close);
    BOOST_TEST(gone.say.status == 0u);
}

// ---- After the upstream

relayed failed(failure why, progress reached, http::framing framing = http::framing::length) {
    return {.why = why, .said = fault_of(why), .reached = reached, .framing = framing};
}

BOOST_AUTO_TEST_CASE(a_complete_response_counts_as_answered) {
    asked const request;
    relayed r{.reached = progress::complete, .keep_alive = true};
    auto end = conclude(r, request.head, true);
    BOOST_TEST(end.how == ending::answered);
    BOOST_TEST(end.after == next::request);
    BOOST_TEST(end.say.status == 0u);
    r.keep_alive = false;
    BOOST_TEST(conclude(r, request.head, true).after == next::close_if_read);
    BOOST_TEST(conclude(r, request.head, false).after == next::close_gently);
    r.why = failure::body_cut_off;  // the rest of the body was not needed
    BOOST_TEST(conclude(r, request.head, false).how == ending::answered);
}

BOOST_AUTO_TEST_CASE(no_response_follows_a_tunnel) {
    auto const end = conclude({.reached = progress::tunnelled}, asked().head, true);
    BOOST_TEST(end.how == ending::answered);
    BOOST_TEST(end.after == next::close);
}

BOOST_AUTO_TEST_CASE(a_failure_gets_a_response_before_any_byte_of_one_was_sent) {
    asked const request;
    for (auto const why : {failure::unreachable, failure::silent, failure::too_slow,
                           failure::malformed, failure::body_too_slow, failure::body_cut_off})
        for (auto const reached : {progress::idle, progress::asked, progress::heard}) {
            auto const end = conclude(failed(why, reached), request.head, true);
            BOOST_TEST(end.how == ending::failed);
            BOOST_TEST(end.after == next::request);
            BOOST_TEST(end.say.status == fault_of(why).status);
            BOOST_TEST(conclude(failed(why, reached), request.head, false).after ==
                       next::close_gently);
        }
    asked const last("GET", "Connection: close\r\n");
    BOOST_TEST(conclude(failed(failure::silent, progress::asked), last.head, true).after ==
               next::close_gently);
}

BOOST_AUTO_TEST_CASE(an_incomplete_response_ends_in_a_way_that_the_client_notices) {
    asked const request;
    auto end = conclude(failed(failure::cut_off, progress::begun), request.head, true);
    BOOST_TEST(end.how == ending::failed);
    BOOST_TEST(end.after == next::close);
    BOOST_TEST(end.say.status == 0u);
    // With this framing a close would mark the end of the response.
    end = conclude(failed(failure::cut_off, progress::begun, http::framing::until_close),
                   request.head, true);
    BOOST_TEST(end.after == next::reset);
    BOOST_TEST(end.say.status == 0u);
}

BOOST_AUTO_TEST_CASE(
    a_client_that_disconnects_is_counted_and_gets_a_response_if_it_may_still_read) {
    asked const request;
    auto const gone = conclude(failed(failure::client_gone, progress::asked), request.head, true);
    BOOST_TEST(gone.how == ending::disconnected);
    BOOST_TEST(gone.after == next::close);
    BOOST_TEST(gone.say.status == 0u);
    auto const ended = conclude(failed(failure::client_ended, progress::asked), request.head, true);
    BOOST_TEST(ended.how == ending::disconnected);
    BOOST_TEST(ended.say.status == 503u);
    auto const late = conclude(failed(failure::client_ended, progress::begun), request.head, true);
    BOOST_TEST(late.how == ending::disconnected);
    BOOST_TEST(late.after == next::close);
    BOOST_TEST(late.say.status == 0u);
}

// ---- Before the end of the program

BOOST_AUTO_TEST_CASE(no_request_follows_the_last) {
    proxy::problem const say{404, "no"};
    BOOST_TEST(last_after({ending::routed, next::request, say}) == next::close_gently);
    BOOST_TEST(last_after({ending::answered, next::request}) == next::close_if_read);
    for (auto const other : {next::close, next::close_if_read, next::close_gently, next::reset})
        BOOST_TEST(last_after({ending::failed, other}) == other);
}

}  // namespace
