// 14 different values of this type could become the same key. Convert the value to the type of the keys
#include <weir/keyed.hpp>
#include <weir/policy/token_bucket.hpp>

enum number : std::uint64_t {};

// A type for each function, because a compiler reports a type once.
void f(weir::keyed<std::uint32_t, weir::policy::token_bucket>& limiter, std::span<char const> many,
       std::span<weir::permit> permits, std::chrono::steady_clock::time_point deadline) {
    auto const token = [](weir::error_code, weir::permit) {};
    static_cast<void>(limiter.try_enter(1UL));
    limiter.try_enter_many(many, permits);
    static_cast<void>(limiter.enter(1L));
    static_cast<void>(limiter.enter_until(1LL, deadline));
    limiter.async_enter(1ULL, token);
    static_cast<void>(limiter.reserve(number(1)));
    static_cast<void>(limiter.run(true, [] {}));
    static_cast<void>(limiter.charge(1.0, 1));
    static_cast<void>(limiter.with(1.0F));
    static_cast<void>(limiter.options(u'1'));
    limiter.configure(U'1', {.rate = {1, std::chrono::seconds(1)}});
    limiter.reset(L'1');
    limiter.cancel(u8'1');
    static_cast<void>(limiter.stats(1.0L));
}
