#include "worker.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace proxy {

worker::worker(options const& o, upstream& u, gate& entrance, tool::log_file* log)
    : settings_(o), upstreams_(context_, dog_, u), entrance_(entrance), log_(log) {}

void worker::drain() {
    draining_ = true;
    upstreams_.close();
    dog_.each([](net::watched& one) { one.stop_if_idle(); });
}

void worker::abort() {
    dog_.each([](net::watched& one) { one.abort(); });
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
