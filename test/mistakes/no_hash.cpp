// 1 the type of the keys has no hash. Specialize std::hash for it, or name a hash like weir::key_hash
#include <weir/keyed.hpp>
#include <weir/policy/seats.hpp>

struct client {
    int id;
    bool operator==(client const&) const = default;
};

void f(boost::asio::io_context& context) {
    weir::keyed<client, weir::policy::seats> limiter{context, {.seats = 1}};
    auto permit = limiter.try_enter(client{7});
}
