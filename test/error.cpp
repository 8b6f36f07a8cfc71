#include <weir/error.hpp>

#include "support/printing.hpp"

#include <boost/asio/error.hpp>
#include <boost/assert/source_location.hpp>
#include <boost/system/errc.hpp>
#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <exception>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <type_traits>

using namespace std::chrono_literals;
using weir::errc;
using weir::error_code;
namespace generic = boost::system::errc;
using boost::system::generic_category;

namespace {

constexpr std::array all{
    errc::no_permit, errc::timed_out,     errc::deadline_unreachable, errc::queue_full,
    errc::shed,      errc::closed,        errc::exceeds_capacity,     errc::unavailable,
    errc::lost,      errc::misconfigured,
};

}  // namespace

static_assert(std::is_convertible_v<errc, error_code>);
static_assert(std::is_base_of_v<boost::system::system_error, weir::rejection>);
static_assert(std::is_base_of_v<std::runtime_error, weir::rejection>);

BOOST_AUTO_TEST_SUITE(an_error)

BOOST_AUTO_TEST_CASE(belongs_to_the_category_weir) {
    BOOST_TEST(weir::error_category().name() == "weir");
    BOOST_TEST(&weir::error_category() == &weir::error_category());
    for (auto const e : all) {
        BOOST_TEST((make_error_code(e).category() == weir::error_category()));
        BOOST_TEST(make_error_code(e).value() == static_cast<int>(e));
    }
}

BOOST_AUTO_TEST_CASE(converts_to_a_failed_error_code) {
    for (auto const e : all) {
        error_code const ec = e;
        BOOST_TEST(ec.failed());
        BOOST_TEST(static_cast<bool>(ec));
        BOOST_TEST(ec == make_error_code(e));
        BOOST_TEST((ec == e));
    }
    BOOST_TEST((make_error_code(errc::closed) != errc::shed));
    BOOST_TEST((error_code() != errc::no_permit));
}

BOOST_AUTO_TEST_CASE(has_a_unique_message) {
    std::set<std::string> messages;
    for (auto const e : all) {
        auto const message = make_error_code(e).message();
        BOOST_TEST(!message.empty());
        BOOST_TEST(message.find("unknown") == std::string::npos);
        BOOST_TEST(messages.insert(message).second, message << " is used twice");
    }
}

BOOST_AUTO_TEST_CASE(that_is_unknown_is_named_by_its_number) {
    BOOST_TEST(error_code(4711, weir::error_category()).message() == "unknown weir error 4711");
    BOOST_TEST(error_code(0, weir::error_category()).message() == "unknown weir error 0");
    auto const condition = weir::error_category().default_error_condition(4711);
    BOOST_TEST(condition.value() == 4711);
    BOOST_TEST((condition.category() == weir::error_category()));
}

BOOST_AUTO_TEST_CASE(equals_a_generic_condition) {
    BOOST_TEST((make_error_code(errc::no_permit) == generic::resource_unavailable_try_again));
    BOOST_TEST((make_error_code(errc::shed) == generic::resource_unavailable_try_again));
    BOOST_TEST((make_error_code(errc::timed_out) == generic::timed_out));
    BOOST_TEST((make_error_code(errc::deadline_unreachable) == generic::timed_out));
    BOOST_TEST((make_error_code(errc::queue_full) == generic::no_buffer_space));
    BOOST_TEST((make_error_code(errc::exceeds_capacity) == generic::value_too_large));
    BOOST_TEST((make_error_code(errc::closed) == generic::broken_pipe));
    BOOST_TEST((make_error_code(errc::unavailable) == generic::not_connected));
    BOOST_TEST((make_error_code(errc::lost) == generic::owner_dead));
    BOOST_TEST((make_error_code(errc::misconfigured) == generic::operation_not_permitted));

    BOOST_TEST((make_error_code(errc::timed_out) != generic::broken_pipe));
    BOOST_TEST((make_error_code(errc::timed_out) != make_error_code(errc::deadline_unreachable)));
}

BOOST_AUTO_TEST_CASE(equals_a_condition_of_the_standard_library) {
    auto const standard = [](errc e) -> std::error_code { return make_error_code(e); };
    BOOST_TEST((standard(errc::no_permit) == std::errc::resource_unavailable_try_again));
    BOOST_TEST((standard(errc::timed_out) == std::errc::timed_out));
    BOOST_TEST((standard(errc::deadline_unreachable) == std::errc::timed_out));
    BOOST_TEST((standard(errc::queue_full) == std::errc::no_buffer_space));
    BOOST_TEST((standard(errc::exceeds_capacity) == std::errc::value_too_large));
    BOOST_TEST((standard(errc::closed) == std::errc::broken_pipe));
    BOOST_TEST((make_error_code(errc::timed_out) == std::errc::timed_out));
    BOOST_TEST(standard(errc::closed).message() == make_error_code(errc::closed).message());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(a_rejection)

BOOST_AUTO_TEST_CASE(has_the_code_and_the_retry_time) {
    weir::rejection const rejected(errc::queue_full, 3s);
    BOOST_TEST((rejected.code() == errc::queue_full));
    BOOST_TEST(rejected.retry_after() == 3s);
}

BOOST_AUTO_TEST_CASE(may_have_no_retry_time) {
    weir::rejection const rejected(errc::closed, std::nullopt);
    BOOST_TEST(!rejected.retry_after());
}

BOOST_AUTO_TEST_CASE(names_the_library_and_the_reason) {
    for (auto const e : all) {
        std::string const what = weir::rejection(e, std::nullopt).what();
        BOOST_TEST(what.starts_with("weir"), what);
        BOOST_TEST(what.find(make_error_code(e).message()) != std::string::npos, what);
    }
}

// Boost.System appends the place in the source code from which a code comes.
BOOST_AUTO_TEST_CASE(names_no_place_in_the_source_code) {
    static constexpr boost::source_location place = BOOST_CURRENT_LOCATION;
    error_code const ec(generic::connection_refused, generic_category(), &place);
    BOOST_TEST_REQUIRE(std::string(ec.what()).find("error.cpp") != std::string::npos);
    BOOST_TEST(std::string(weir::rejection(ec, {}).what()) ==
               "weir: " + ec.message() + " [generic:" + std::to_string(ec.value()) + "]");

    boost::system::system_error const failure(ec, "connect");
    weir::checkout_rejection const rejected(errc::timed_out, std::make_exception_ptr(failure));
    BOOST_TEST(std::string(rejected.what()) ==
               "weir: " + make_error_code(errc::timed_out).message() +
                   " [weir:2]; cannot create an object: connect: " + ec.message() +
                   " [generic:" + std::to_string(ec.value()) + "]");
}

BOOST_AUTO_TEST_CASE(can_be_a_cancellation) {
    weir::rejection const rejected(boost::asio::error::operation_aborted, std::nullopt);
    BOOST_TEST((rejected.code() == boost::asio::error::operation_aborted));
}

BOOST_AUTO_TEST_CASE(is_caught_as_its_base_classes) {
    auto const reject = [] { throw weir::rejection(errc::shed, 1s); };
    BOOST_CHECK_THROW(reject(), boost::system::system_error);
    BOOST_CHECK_THROW(reject(), std::runtime_error);
    BOOST_CHECK_THROW(reject(), std::exception);
}

BOOST_AUTO_TEST_SUITE_END()
