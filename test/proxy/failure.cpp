#include "proxy/failure.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <array>
#include <string_view>

namespace data = boost::unit_test::data;
using proxy::failure;
using proxy::fault_of;
using proxy::is_hang_up;
using proxy::is_of_client;
using proxy::may_repeat;
using proxy::outcome_of;
using proxy::progress;
using proxy::relayed;

namespace {

struct expected {
    failure why;
    unsigned status;
    bool of_client;
    bool hang_up = false;
};
constexpr std::array failures{
    expected{failure::unreachable, 502, false},
    expected{failure::untrusted, 502, false},
    expected{failure::tls_failed, 502, false},
    expected{failure::silent, 502, false},
    expected{failure::too_slow, 504, false},
    expected{failure::header_too_long, 502, false},
    expected{failure::malformed, 502, false},
    expected{failure::bad_chunks, 502, false},
    expected{failure::cut_off, 502, false},
    expected{failure::body_too_slow, 408, true},
    expected{failure::body_cut_off, 400, true},
    expected{failure::body_bad_chunks, 400, true},
    expected{failure::client_ended, 503, true, true},
    expected{failure::client_gone, 503, true, true},
};

struct known_verb {
    http::verb verb;
    bool is_idempotent;
};
// The methods of RFC 9110 and RFC 5789 that a proxy receives, and an unknown one.
constexpr std::array verbs{
    known_verb{http::verb::get, true},      known_verb{http::verb::head, true},
    known_verb{http::verb::post, false},    known_verb{http::verb::put, true},
    known_verb{http::verb::delete_, true},  known_verb{http::verb::options, true},
    known_verb{http::verb::trace, true},    known_verb{http::verb::patch, false},
    known_verb{http::verb::unknown, false},
};

}  // namespace

BOOST_AUTO_TEST_CASE(each_failure_has_a_status_and_a_side_at_fault) {
    for (auto const& one : failures) {
        auto const said = fault_of(one.why);
        BOOST_TEST_CONTEXT(said.why) {
            BOOST_TEST(said.status == one.status);
            BOOST_TEST(!std::string_view(said.why).empty());
            BOOST_TEST(is_of_client(one.why) == one.of_client);
            BOOST_TEST(is_hang_up(one.why) == one.hang_up);
        }
    }
}

BOOST_AUTO_TEST_CASE(success_is_the_fault_of_no_side) {
    BOOST_TEST(!fault_of(failure::none));
    BOOST_TEST(!is_of_client(failure::none));
    BOOST_TEST(!is_hang_up(failure::none));
}

BOOST_AUTO_TEST_CASE(only_failures_of_the_upstream_indicate_overload) {
    for (auto const& one : failures)
        for (auto const reached :
             {progress::idle, progress::asked, progress::heard, progress::begun}) {
            auto const outcome = one.of_client ? weir::outcome::ignored : weir::outcome::dropped;
            BOOST_CHECK(outcome_of({.why = one.why, .reached = reached, .status = 200}) == outcome);
        }
}

BOOST_DATA_TEST_CASE(some_statuses_indicate_overload,
                     data::make({200, 304, 404, 429, 500, 501, 502, 503, 504, 505}), status) {
    bool const overloaded = status >= 502 && status <= 504;
    relayed const r{.reached = progress::complete, .status = static_cast<unsigned>(status)};
    BOOST_CHECK(outcome_of(r) == (overloaded ? weir::outcome::dropped : weir::outcome::success));
}

BOOST_AUTO_TEST_CASE(the_duration_of_a_tunnel_indicates_nothing) {
    for (auto const reached : {progress::switched, progress::tunnelled})
        BOOST_CHECK(outcome_of({.reached = reached, .status = 101}) == weir::outcome::ignored);
    BOOST_TEST(!has_switched(progress::begun));
    BOOST_TEST(!has_switched(progress::complete));
}

// Every method, with or without a body, with or without bytes of a response, on a new or a kept connection.
BOOST_AUTO_TEST_CASE(
    a_request_is_repeated_only_where_it_may_have_come_to_nothing_and_does_no_harm_twice) {
    for (auto const& m : verbs)
        for (bool const has_body : {false, true})
            for (bool const answered : {false, true})
                for (bool const kept : {false, true}) {
                    bool const expected = m.is_idempotent && !has_body && !answered && kept;
                    BOOST_TEST_CONTEXT(to_string(m.verb) << " body " << has_body << " answered "
                                                         << answered << " kept " << kept)
                    BOOST_TEST(may_repeat({.method = m.verb,
                                           .has_body = has_body,
                                           .answered = answered,
                                           .kept = kept}) == expected);
                }
}
