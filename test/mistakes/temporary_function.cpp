// 8 g++ 12 destroys a temporary function with a destructor twice in a co_await expression: name the function first
#include <weir/chain.hpp>
#include <weir/keyed.hpp>
#include <weir/policy/seats.hpp>
#include <weir/pool.hpp>
#include <weir/seats.hpp>

#include <string>

boost::asio::awaitable<void> f(weir::seats& all, weir::keyed<int, weir::policy::seats>& keyed,
                               weir::pool<int>& pool, std::string text) {
    using namespace std::chrono_literals;
    weir::chain both{all, keyed.with(1)};
    co_await all.run([text] { return text.size(); });
    co_await all.run([text] { return text.size(); }, 1s);
    co_await all.run([text] { return text.size(); }, 1, 1s);
    co_await keyed.run(1, [text] { return text.size(); });
    co_await keyed.run(1, [text] { return text.size(); }, 1s);
    co_await keyed.run(1, [text] { return text.size(); }, 1, 1s);
    co_await both.run([text] { return text.size(); });
    co_await pool.run([text](int& n) { return n + text.size(); });

    // These are right.
    co_await all.run([&] { return text.size(); });
    co_await all.run([&text, n = 1] { return text.size() + n; });
    auto const named = [text] { return text.size(); };
    co_await all.run(named);
    auto copy = named;
    co_await both.run(copy, 1s);
}
