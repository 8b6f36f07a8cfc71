#include "support/virtual_limiters.hpp"

#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <string_view>

// Tests how the compiler handles a co_await in `?:`: g++ 12.2 destroys the resulting object twice, clang 19.1 does not.
// Hence the rule of this project: no co_await there.
//
// The behaviour of g++ 12 and clang 19 is known and must not change. Another compiler may behave in either way; the
// test prints its behaviour.

using namespace support;

namespace {

#if defined(__clang__)
constexpr std::string_view compiler = "clang " __clang_version__;
constexpr bool is_known = __clang_major__ == 19;
constexpr bool destroys_twice = false;
#else
constexpr std::string_view compiler = "g++ " __VERSION__;
constexpr bool is_known = __GNUC__ == 12;
constexpr bool destroys_twice = true;
#endif

class counted {
public:
    explicit counted(int& living) noexcept : living_(&living) { ++*living_; }
    counted(counted&& other) noexcept : living_(other.living_) { ++*living_; }
    counted& operator=(counted&&) = delete;
    ~counted() { --*living_; }

private:
    int* living_;
};

asio::awaitable<counted> give(int& living) {
    co_return counted(living);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(compiler_conditional_expressions)

BOOST_AUTO_TEST_CASE(with_an_object_on_each_side) {
    int living = 0;
    int inside = 0;
    auto takes = [&](bool first) -> asio::awaitable<void> {
        auto const one = first ? co_await give(living) : co_await give(living);
        inside = living;
    };
    asio::io_context ctx;
    co_spawn(ctx, takes(true), rethrow);
    ctx.run();
    bool const twice = living == -1;
    fmt::print("{} destroys it {}\n", compiler, twice ? "twice, which is wrong" : "once");
    BOOST_TEST((twice || (living == 0 && inside == 1)),
               living << " are left, " << inside << " were inside");
    if (is_known)
        BOOST_TEST(twice == destroys_twice);
}

BOOST_AUTO_TEST_SUITE_END()
