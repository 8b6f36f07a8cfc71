#pragma once

#include <weir/format.hpp>
#include <weir/testing.hpp>
#include <weir/weir.hpp>

#include <boost/asio.hpp>

#include <fmt/format.h>

#include <string_view>

// Runs an example on virtual time, on which a minute passes at once, or in real time with `--real`.
template <class Timer>
class stage {
public:
    template <class Limiter>
    using limiter =
        weir::basic_limiter<typename Limiter::policy_type, boost::asio::any_io_executor, Timer>;

    boost::asio::io_context context;

    /// Suspends the awaiting coroutine for `length`.
    boost::asio::awaitable<void> sleep(typename Timer::duration length) {
        Timer timer(co_await boost::asio::this_coro::executor);
        timer.expires_after(length);
        co_await timer.async_wait(boost::asio::use_awaitable);
    }

    /// Starts a coroutine. `run` throws its exceptions.
    void start(boost::asio::awaitable<void> story) {
        boost::asio::co_spawn(context, std::move(story), [](std::exception_ptr failure) {
            if (failure)
                std::rethrow_exception(failure);
        });
    }

    template <class... Args>
    void say(fmt::format_string<Args...> what, Args&&... args) {
        std::chrono::duration<double> const since = Timer::clock_type::now() - opened_;
        fmt::print("{:7.3f} s  {}\n", since.count(),
                   fmt::format(what, std::forward<Args>(args)...));
    }

    void run() {
        if constexpr (std::is_same_v<Timer, weir::testing::timer>)
            weir::testing::run(context);
        else
            context.run();
    }

private:
    typename Timer::time_point opened_ = Timer::clock_type::now();
};

/// Runs `story(stage)` on virtual time or, with `--real`, in real time. Returns 1 if `story` returns false, else 0.
template <class Story>
int play(int argc, char** argv, Story story) {
    if (argc > 1 && std::string_view(argv[1]) == "--real") {
        stage<boost::asio::steady_timer> real;
        return story(real) ? 0 : 1;
    }
    stage<weir::testing::timer> imagined;
    return story(imagined) ? 0 : 1;
}
