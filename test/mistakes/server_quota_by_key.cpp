// 1 the policy has no is_alike(other, now), which returns whether it makes the same decisions as other from now on
#include <weir/keyed.hpp>
#include <weir/server_quota.hpp>

void f(boost::asio::io_context& context) {
    weir::keyed<int, weir::server_quota> limiter{context};
    auto permit = limiter.try_enter(7);
    limiter.configure({});
}
