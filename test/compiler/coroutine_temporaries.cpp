#include "support/virtual_limiters.hpp"

#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>

#include <ostream>
#include <utility>

// Tests how the compiler handles temporaries inside a co_await expression. g++ 12 copies temporaries of types without a
// user-written constructor, which are closures and aggregates, bit by bit into the coroutine frame, and destroys them
// twice. Hence the rule of this project: name a lambda whose captures have a destructor, and give such an options
// struct a constructor. `run` rejects such a lambda with g++ 12: test/mistakes/temporary_function.cpp.
//
// If this test fails with a new compiler, review that rule and the documentation of `run`.

using namespace support;

namespace {

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ <= 12
constexpr bool destroys_twice = true;
#else
constexpr bool destroys_twice = false;
#endif

/// The number of live objects: 0 if each object was destroyed exactly once.
int live = 0;

class counted {
public:
    counted() { ++live; }
    counted(counted const&) { ++live; }
    counted& operator=(counted const&) = delete;
    ~counted() { --live; }
};

struct aggregate {
    counted c;
    int more = 0;
};

class with_constructor {
public:
    explicit with_constructor(counted const& c) : c_(c) {}

private:
    counted c_;
};

// An awaitable and an asynchronous operation, each with a parameter of three kinds.
template <class T>
asio::awaitable<void> by_value(T) {
    co_await asio::post(asio::deferred);
}
template <class T>
asio::awaitable<void> by_forwarding_reference(T&&) {
    co_await asio::post(asio::deferred);
}
template <class T>
asio::awaitable<void> by_const_reference(T const&) {
    co_await asio::post(asio::deferred);
}
template <class T>
class initiation {
public:
    explicit initiation(T kept) : kept_(std::move(kept)) {}
    template <class Handler>
    void operator()(Handler&& handler) const {
        asio::post(std::forward<Handler>(handler));
    }

private:
    T kept_;
};
template <class T>
auto async_by_value(T value) {
    return asio::async_initiate<asio::deferred_t const, void()>(
        initiation<T>(std::move(value)), asio::deferred);
}

/// Runs `test` in a coroutine. Returns the number of objects that it did not destroy; negative if it destroyed some
/// twice.
template <class Test>
int left_by(Test test) {
    live = 0;
    asio::io_context ctx;
    co_spawn(ctx, test(), rethrow);
    ctx.run();
    return live;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(compiler_coroutine_temporaries)

BOOST_AUTO_TEST_CASE(a_capturing_lambda_by_value) {
    auto const left = left_by([]() -> asio::awaitable<void> {
        counted const c;
        co_await by_value([c] {});
    });
    BOOST_TEST((left < 0) == destroys_twice);
    auto const left_by_operation = left_by([]() -> asio::awaitable<void> {
        counted const c;
        co_await async_by_value([c] {});
    });
    BOOST_TEST((left_by_operation < 0) == destroys_twice);
}

BOOST_AUTO_TEST_CASE(a_capturing_lambda_by_reference) {
    auto const left = left_by([]() -> asio::awaitable<void> {
        counted const c;
        co_await by_forwarding_reference([c] {});
    });
    BOOST_TEST((left < 0) == destroys_twice);
    auto const left_by_const = left_by([]() -> asio::awaitable<void> {
        counted const c;
        co_await by_const_reference([c] {});
    });
    BOOST_TEST((left_by_const < 0) == destroys_twice);
}

BOOST_AUTO_TEST_CASE(an_aggregate) {
    auto const left = left_by([]() -> asio::awaitable<void> {
        counted const c;
        co_await by_value(aggregate{c});
    });
    BOOST_TEST((left < 0) == destroys_twice);
}

BOOST_AUTO_TEST_CASE(a_coroutine_lambda_that_is_called_in_place) {
    auto const left = left_by([]() -> asio::awaitable<void> {
        counted const c;
        auto const ex = co_await asio::this_coro::executor;
        co_await asio::co_spawn(
            ex, [c]() -> asio::awaitable<void> { co_await asio::post(asio::deferred); }(),
            asio::use_awaitable);
    });
    BOOST_TEST((left < 0) == destroys_twice);
}

// This must be correct with each compiler, because this project relies on it.

BOOST_AUTO_TEST_CASE(a_named_lambda_is_safe) {
    auto const left = left_by([]() -> asio::awaitable<void> {
        counted const c;
        auto named = [c] {};
        co_await by_value(named);
        co_await by_forwarding_reference(named);
        co_await by_const_reference(named);
        co_await async_by_value(named);
        seats kitchen{co_await asio::this_coro::executor, {.seats = 1}};
        co_await kitchen.run(named);
        co_await by_value(std::move(named));
    });
    BOOST_TEST(left == 0);
}

BOOST_AUTO_TEST_CASE(a_class_with_a_constructor_is_safe) {
    auto const left = left_by([]() -> asio::awaitable<void> {
        counted const c;
        co_await by_value(with_constructor(c));
        co_await by_forwarding_reference(with_constructor(c));
        co_await by_const_reference(with_constructor(c));
        co_await async_by_value(with_constructor(c));
        co_await by_value(counted());
    });
    BOOST_TEST(left == 0);
}

BOOST_AUTO_TEST_CASE(an_awaitable_that_is_named_first_is_safe) {
    auto const left = left_by([]() -> asio::awaitable<void> {
        counted const c;
        auto first = by_value([c] {});
        co_await std::move(first);
        auto second = by_value(aggregate{c});
        co_await std::move(second);
        auto third = async_by_value([c] {});
        co_await std::move(third);
    });
    BOOST_TEST(left == 0);
}

BOOST_AUTO_TEST_CASE(a_coroutine_lambda_that_co_spawn_calls_is_safe) {
    auto const left = left_by([]() -> asio::awaitable<void> {
        counted const c;
        auto const ex = co_await asio::this_coro::executor;
        auto named = [c]() -> asio::awaitable<void> { co_await asio::post(asio::deferred); };
        co_await asio::co_spawn(ex, std::move(named), asio::use_awaitable);
    });
    BOOST_TEST(left == 0);
}

BOOST_AUTO_TEST_SUITE_END()
