#include "upstream.hpp"

#include <utility>

namespace proxy {

std::unique_ptr<connection> upstream_pool::reuse() {
    while (!kept_.empty()) {
        auto one = std::move(kept_.back());
        kept_.pop_back();
        if (one->take_back())
            return one;
    }
    return nullptr;
}

task<std::unique_ptr<connection>> upstream_pool::open(error_code& ec) {
    auto one = std::make_unique<connection>(tcp_socket(context_), dog_);
    {
        time_limit const limit(*one, direction::writing, timeout_);
        std::tie(ec) = co_await one->connect(address_.endpoint);
    }
    if (one->expired(direction::writing))
        ec = asio::error::timed_out;
    if (ec)
        co_return nullptr;
    one->no_delay();
    co_return one;
}

void upstream_pool::keep(std::unique_ptr<connection> one) {
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
