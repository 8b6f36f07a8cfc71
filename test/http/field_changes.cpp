#include "http/field_changes.hpp"

#include <boost/test/unit_test.hpp>

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// Files of this folder are compiled together.
namespace values_of_fields {
namespace {

using http::value_of;
using http::variable;
using parts = std::vector<http::value_part>;

std::string fault_of(std::string_view text) {
    try {
        static_cast<void>(value_of(text));
    } catch (std::invalid_argument const& wrong) {
        return wrong.what();
    }
    return "";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(the_value_of_an_added_field)

BOOST_AUTO_TEST_CASE(has_texts_and_variables) {
    BOOST_TEST((value_of("") == parts{{""}}));
    BOOST_TEST((value_of("a b") == parts{{"a b"}}));
    BOOST_TEST((value_of("{client}") == parts{{"", variable::client}}));
    BOOST_TEST((value_of("a{host}b{id}") == parts{{"a", variable::host}, {"b", variable::id}}));
    BOOST_TEST(
        (value_of("{route}{id}c") == parts{{"", variable::route}, {"", variable::id}, {"c"}}));
}

BOOST_AUTO_TEST_CASE(has_a_brace_for_two) {
    BOOST_TEST((value_of("{{\"a\": 1}}") == parts{{"{\"a\": 1}"}}));
    BOOST_TEST((value_of("{{client}}") == parts{{"{client}"}}));
    BOOST_TEST((value_of("{{{client}}}") == parts{{"{", variable::client}, {"}"}}));
}

BOOST_AUTO_TEST_CASE(has_no_other_brace) {
    constexpr std::string_view known =
        "; use {client}, {client_certificate}, {host}, {id} or {route}, or `{{` for a brace";
    for (std::string const name : {"", "Client", " id", "client.name", "{"})
        BOOST_TEST(fault_of("a{" + name + "}") ==
                   (name == "{" ? "`}` without `{`; use `}}` for a brace"
                                : "unknown variable `{" + name + "}`" + std::string(known)));
    BOOST_TEST(fault_of("{client") == "`{` without `}`; use `{{` for a brace");
    BOOST_TEST(fault_of("client}") == "`}` without `{`; use `}}` for a brace");
    BOOST_TEST(fault_of("}{client}") == "`}` without `{`; use `}}` for a brace");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace values_of_fields
