#include <weir/version.hpp>

#include <boost/test/unit_test.hpp>

#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

namespace {

// The number that `version` has in WEIR_VERSION; -1 if it is not `major.minor.patch`.
int number_of(std::string_view version) {
    int number = 0;
    for (int part = 0; part != 3; ++part) {
        int value = -1;
        auto const [rest, error] =
            std::from_chars(version.data(), version.data() + version.size(), value);
        if (error != std::errc{} || value < 0 || value > 99)
            return -1;
        number = number * 100 + value;
        version.remove_prefix(static_cast<std::size_t>(rest - version.data()));
        if (part != 2) {
            if (!version.starts_with('.'))
                return -1;
            version.remove_prefix(1);
        }
    }
    return version.empty() ? number : -1;
}

BOOST_AUTO_TEST_SUITE(version)

BOOST_AUTO_TEST_CASE(number_and_text_agree) {
    BOOST_TEST(number_of(WEIR_VERSION_STRING) == WEIR_VERSION);
}

// WEIR_PROJECT_VERSION is the version in CMake, for packages and find_package.
BOOST_AUTO_TEST_CASE(cmake_reads_it) {
    BOOST_TEST(std::string_view(WEIR_PROJECT_VERSION) == WEIR_VERSION_STRING);
}

BOOST_AUTO_TEST_CASE(changes_begin_with_it) {
    std::ifstream changes(WEIR_CHANGELOG);
    std::string line;
    while (std::getline(changes, line))
        if (line.starts_with("## "))
            break;
    BOOST_TEST(line == "## " WEIR_VERSION_STRING);
}

BOOST_AUTO_TEST_CASE(preprocessor_compares_it) {
#if WEIR_VERSION >= 200 && WEIR_VERSION < 10000
    bool const at_least_0_2 = true;
#else
    bool const at_least_0_2 = false;
#endif
    BOOST_TEST(at_least_0_2);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
