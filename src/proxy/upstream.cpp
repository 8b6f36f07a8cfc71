#include "upstream.hpp"

#include <utility>

namespace proxy {

std::unique_ptr<net::connection> upstream_pool::reuse() {
    while (!kept_.empty()) {
        auto one = std::move(kept_.back());
        kept_.pop_back();
        if (one->take_back())
            return one;
    }
    return nullptr;
}

net::task<std::unique_ptr<net::connection>> upstream_pool::open(net::error_code& ec) {
    auto one = std::make_unique<net::connection>(net::tcp_socket(context_), dog_);
    {
        net::time_limit const limit(*one, net::direction::writing, timeout_);
        std::tie(ec) = co_await one->connect(address_.endpoint);
    }
    if (one->expired(net::direction::writing))
        ec = asio::error::timed_out;
    if (ec)
        co_return nullptr;
    one->no_delay();
    co_return one;
}

void upstream_pool::keep(std::unique_ptr<net::connection> one) {
    if (closed_ || kept_.size() == most)
        return;
    one->lay_aside();
    kept_.push_back(std::move(one));
}

void upstream_pool::close() noexcept {
    closed_ = true;
    kept_.clear();
}

}  // namespace proxy
