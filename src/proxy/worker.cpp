#include "worker.hpp"

#include "tool/memory.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>

namespace proxy {

worker::worker(std::shared_ptr<plan const> p, upstream_pool::all& pools, tool::log_file* log)
    : plan_(std::move(p)), upstreams_(context_, dog_, pools), log_(log) {}

void worker::use(std::shared_ptr<plan const> p) {
    plan_ = std::move(p);
    dog_.look_at_all();  // a server may be gone
}

void worker::drain() {
    draining_ = true;
    upstreams_.close();
    dog_.stop_if_idle();
    tidy_.cancel();
}

void worker::abort() {
    dog_.abort();
}

exchanges::handle worker::take_exchange() {
    if (!tidies_ && !draining_)
        tidy_soon();
    return exchanges_.take();
}

void worker::tidy_soon() {
    tidies_ = true;
    tidy_.expires_after(std::chrono::seconds(1));
    tidy_.async_wait([this](net::error_code ec) {
        tidies_ = false;
        if (ec || draining_)
            return;
        if (exchanges_.tidy())
            tool::give_memory_back();
        if (!exchanges_.empty())
            tidy_soon();
    });
}

std::string_view worker::date() {
    auto const now = std::time(nullptr);
    if (now != date_of_) {
        date_of_ = now;
        date_ = fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT", fmt::gmtime(now));
    }
    return date_;
}

}  // namespace proxy
