#include "support/virtual_limiters.hpp"

#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <string_view>

// Tests how the compiler handles a co_await on the right side of a `||` in the condition of a loop: g++ 12.2 and 14.2
// evaluate it even if the left side is true, clang 19.1 does not. Hence the rule of this project: no co_await there.
//
// The behaviour of g++ 12 and clang 19 is known and must not change. Another compiler may behave in either way; the
// test prints its behaviour.

using namespace support;

namespace {

#if defined(__clang__)
constexpr std::string_view compiler = "clang " __clang_version__;
constexpr bool is_known = __clang_major__ == 19;
constexpr bool evaluates_both = false;
#else
constexpr std::string_view compiler = "g++ " __VERSION__;
constexpr bool is_known = __GNUC__ == 12;
constexpr bool evaluates_both = true;
#endif

asio::awaitable<bool> says(bool answer, int& asked) {
    ++asked;
    co_return answer;
}

/// Returns how often `test(asked)` evaluates the right side.
template <class Test>
int asked_by(Test test) {
    int asked = 0;
    asio::io_context ctx;
    co_spawn(ctx, test(asked), rethrow);
    ctx.run();
    return asked;
}

/// Checks that the right side was evaluated `should` times, or once in each round.
void check(int asked, int should, int rounds) {
    bool const both = asked == rounds;
    fmt::print("{} evaluates {}\n", compiler,
               both ? "both sides, which is wrong" : "only the necessary side");
    BOOST_TEST((both || asked == should), "the right side was evaluated " << asked << " times");
    if (is_known)
        BOOST_TEST(both == evaluates_both);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(compiler_loop_conditions)

BOOST_AUTO_TEST_CASE(of_while) {
    int const asked = asked_by([](int& n) -> asio::awaitable<void> {
        for (int left = 3; left-- > 0 || co_await says(false, n);) {}
    });
    check(asked, 1, 4);
}

BOOST_AUTO_TEST_CASE(of_do_while) {
    int const asked = asked_by([](int& n) -> asio::awaitable<void> {
        int left = 3;
        do {
            --left;
        } while (left > 0 || co_await says(false, n));
    });
    check(asked, 1, 3);
}

// This must be correct with each compiler.

BOOST_AUTO_TEST_CASE(of_other_expressions_are_correct) {
    int const asked = asked_by([](int& n) -> asio::awaitable<void> {
        bool const left = true;
        if (left || co_await says(false, n))
            BOOST_TEST(n == 0);
        for (bool more = true; more;)
            more = !left || co_await says(false, n);
    });
    BOOST_TEST(asked == 1);
}

BOOST_AUTO_TEST_SUITE_END()
