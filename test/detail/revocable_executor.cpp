#include <weir/detail/revocable_executor.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using weir::detail::revocable_executor;

BOOST_AUTO_TEST_CASE(posts_until_the_context_ends) {
    auto context = std::make_unique<asio::io_context>();
    revocable_executor const executor(context->get_executor());
    int calls = 0;
    BOOST_TEST(executor.use([&](auto const& ex) { asio::post(ex, [&] { ++calls; }); }));
    context->run();
    BOOST_TEST(calls == 1);
    context.reset();
    BOOST_TEST(!executor.use([&](auto const&) { ++calls; }));
    BOOST_TEST(calls == 1);
}

// The executor of a user may use the same object, on this thread or on another one.
BOOST_AUTO_TEST_CASE(is_used_by_the_executor_that_it_uses) {
    asio::io_context context;
    revocable_executor const executor(context.get_executor());
    std::future<bool> other;
    bool done = false;
    executor.use([&](auto const&) {
        other = std::async(std::launch::async, [&] { return executor.use([](auto const&) {}); });
        done = other.wait_for(1min) == std::future_status::ready;
    });
    BOOST_TEST(done);
    BOOST_TEST(other.get());
    BOOST_TEST(executor.use([&](auto const&) { BOOST_TEST(executor.use([](auto const&) {})); }));
}

BOOST_AUTO_TEST_CASE(an_exception_ends_the_use) {
    auto context = std::make_unique<asio::io_context>();
    revocable_executor const executor(context->get_executor());
    auto const fail = [](auto const&) { throw std::runtime_error("no"); };
    BOOST_CHECK_THROW(executor.use(fail), std::runtime_error);
    context.reset();  // does not wait
    BOOST_TEST(!executor.use(fail));
}

// Most useful with a sanitizer: the context is not destroyed before the work was posted.
BOOST_AUTO_TEST_CASE(the_end_of_the_context_waits_for_its_users) {
    auto context = std::make_unique<asio::io_context>();
    revocable_executor const executor(context->get_executor());
    std::promise<void> begun;
    std::thread user([&] {
        executor.use([&](auto const& ex) {
            begun.set_value();
            for (int i = 0; i != 1'000; ++i)
                asio::post(ex, [] {});
        });
    });
    begun.get_future().wait();
    context.reset();
    user.join();
    BOOST_TEST(!executor.use([](auto const&) {}));
}
