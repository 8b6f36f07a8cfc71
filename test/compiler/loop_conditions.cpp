#include "support/virtual_limiters.hpp"

#include <boost/test/unit_test.hpp>

// What the compiler does with a co_await on the right of a `||` in the condition of a loop: g++ 12
// evaluates it whatever the left side is. Hence the rule of this project: await nothing there.
//
// If this fails with a new compiler, it is time to look at that rule again.

using namespace support;

namespace {

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ <= 12
constexpr bool evaluates_both = true;
#else
constexpr bool evaluates_both = false;
#endif

asio::awaitable<bool> says(bool answer, int& asked) {
    ++asked;
    co_return answer;
}

/// How often the right side is asked by `test(asked)`.
template <class Test>
int asked_by(Test test) {
    int asked = 0;
    asio::io_context ctx;
    co_spawn(ctx, test(asked), rethrow);
    ctx.run();
    return asked;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(compiler_loop_conditions)

BOOST_AUTO_TEST_CASE(of_while) {
    int const asked = asked_by([](int& n) -> asio::awaitable<void> {
        for (int left = 3; left-- > 0 || co_await says(false, n);) {}
    });
    BOOST_TEST(asked == (evaluates_both ? 4 : 1));
}

BOOST_AUTO_TEST_CASE(of_do_while) {
    int const asked = asked_by([](int& n) -> asio::awaitable<void> {
        int left = 3;
        do {
            --left;
        } while (left > 0 || co_await says(false, n));
    });
    BOOST_TEST(asked == (evaluates_both ? 3 : 1));
}

// What must be right with every compiler.

BOOST_AUTO_TEST_CASE(outside_of_them_all_is_well) {
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
