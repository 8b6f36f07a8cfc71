#include "tcp_service.hpp"

namespace proxy {

admin::tcp_state tcp_service::state() const {
    auto const& c = *counts;
    admin::tcp_state s{
        .name = name,
        .upstream = configuration.upstream,
        .active = c.active,
        .waiting = c.waiting,
        .ended = {},
        .bytes_up = c.sent_up,
        .bytes_down = c.sent_down};
    for (std::size_t i = 0; i != s.ended.size(); ++i)
        s.ended[i] = c.ended[i];
    return s;
}

}  // namespace proxy
