#include "upstream.hpp"

#include <boost/asio/post.hpp>

#include <utility>

namespace proxy {

upstream::upstream(std::vector<net::tcp::endpoint> at, std::string name, timeouts const& limits,
                   std::int64_t most)
    : endpoints_(std::move(at)),
      name_(std::move(name)),
      timeout_(limits.upstream),
      keep_(limits.keep),
      most_(most) {}

place::place(upstream& u) noexcept {
    if (u.open_.fetch_add(1) < u.most_)
        of_ = &u;
    else
        u.open_.fetch_sub(1);
}

place::~place() {
    if (of_)
        of_->open_.fetch_sub(1);
}

upstream_pool::upstream_pool(asio::io_context& context, net::watchdog& dog, upstream& u)
    : context_(context), dog_(dog), upstream_(u) {
    upstream_.pools_.push_back(this);
}

upstream_connection upstream_pool::reuse() {
    auto one = take_for(*this);
    if (!one && upstream_.open_.load() >= upstream_.most_)
        one = take_from_another();
    return one;
}

upstream_connection upstream_pool::take_for(upstream_pool& user) {
    for (;;) {
        std::unique_lock lock(mutex_);
        if (kept_.empty())
            return {};
        auto one = std::move(kept_.back());
        kept_.pop_back();
        lock.unlock();
        if (!net::is_silent(one.socket))
            continue;
        if (&user != this)
            one.socket = net::move_to(user.context_, std::move(one.socket));
        return {std::move(one.holds),
                std::make_unique<net::connection>(std::move(one.socket), user.dog_)};
    }
}

upstream_connection upstream_pool::take_from_another() {
    for (auto* const other : upstream_.pools_)
        if (other != this)
            if (auto one = other->take_for(*this))
                return one;
    return {};
}

net::task<upstream_connection> upstream_pool::open(net::error_code& ec) {
    auto const end = net::clock::now() + upstream_.timeout_;
    place mine(upstream_);
    // There are as many places as seats, or as clients: some connection is kept, or about to be closed.
    while (!mine) {
        if (net::clock::now() >= end) {
            ec = asio::error::timed_out;
            co_return upstream_connection();
        }
        auto spare = take_for(*this);
        if (!spare)
            spare = take_from_another();
        spare.close();
        co_await asio::post(context_, asio::deferred);
        mine = place(upstream_);
    }
    auto one = co_await upstream_.endpoints_.connect(context_, dog_, upstream_.timeout_, ec);
    if (!one)
        co_return upstream_connection();
    one->no_delay();
    co_return upstream_connection(std::move(mine), std::move(one));
}

void upstream_pool::keep(upstream_connection one) {
    auto const until = dog_.after(upstream_.keep_);
    std::lock_guard const lock(mutex_);
    if (closed_ || kept_.size() == most)
        return;
    kept_.push_back({std::move(one.place_), one.connection_->give_socket(), until});
    if (!is_linked())
        dog_.add(*this);
}

void upstream_pool::close() noexcept {
    std::lock_guard const lock(mutex_);
    closed_ = true;
    kept_.clear();
}

void upstream_pool::look(net::clock::time_point now) {
    std::lock_guard const lock(mutex_);
    std::erase_if(kept_,
                  [now](kept& one) { return now >= one.until || !net::is_silent(one.socket); });
    if (kept_.empty())
        unlink();
}

}  // namespace proxy
