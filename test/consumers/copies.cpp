#include "copy.hpp"

#include <boost/system/errc.hpp>

#include <cstdio>
#include <system_error>

namespace {

bool all_good = true;

void check(bool good, char const* what) {
    if (good)
        return;
    std::fprintf(stderr, "not true: %s\n", what);
    all_good = false;
}

void check_equal(weir::error_code a, weir::error_code b) {
    check(&a.category() != &b.category(), "there are two copies");
    check(a == b, "the codes are equal");
    check(a.category() == b.category(), "the categories are equal");
    check(hash_value(a) == hash_value(b), "the hashes are equal");
}

}  // namespace

int main() {
    check_equal(first::code_of_weir(), second::code_of_weir());
    check_equal(first::code_of_weir(), weir::errc::timed_out);
    check_equal(first::code_of_redis(), second::code_of_redis());
    check(first::code_of_weir() != second::code_of_redis(), "different codes are unequal");
    check(first::code_of_weir() == boost::system::errc::timed_out, "the code equals a condition");
    check(std::error_code(second::code_of_weir()) == std::errc::timed_out,
          "the code equals a condition of the standard library");
    return all_good ? 0 : 1;
}
