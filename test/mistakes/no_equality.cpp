// 1 the type of the keys has no operator==
#include <weir/keyed.hpp>
#include <weir/policy/seats.hpp>

struct client {
    int id;
};
template <>
struct std::hash<client> {
    std::size_t operator()(client const& c) const noexcept { return std::hash<int>()(c.id); }
};

boost::asio::awaitable<void> f(weir::keyed<client, weir::policy::seats>& limiter) {
    auto permit = co_await limiter.enter(client{7});
}
