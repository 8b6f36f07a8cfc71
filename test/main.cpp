#include <boost/test/unit_test.hpp>

namespace {

bool name_the_suite() {
    boost::unit_test::framework::master_test_suite().p_name.value = "weir";
    return true;
}

}  // namespace

// What BOOST_TEST_MODULE would write, for all tests and with their precompiled header.
int main(int argc, char* argv[]) {
    return boost::unit_test::unit_test_main(name_the_suite, argc, argv);
}
