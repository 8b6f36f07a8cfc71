#include "workspace.hpp"

#include "tool/memory.hpp"

#include <chrono>
#include <utility>

namespace proxy {

namespace {

constexpr std::size_t many = 256;  // connections that end in a second

}  // namespace

void workspaces::tidy_soon() {
    if (tidies_ || stopped_)
        return;
    tidies_ = true;
    tidy_.expires_after(std::chrono::seconds(1));
    tidy_.async_wait([this](net::error_code ec) {
        tidies_ = false;
        if (ec || stopped_)
            return;
        bool const freed_workspaces = all_.tidy();
        bool const freed_buffers = buffers_.tidy();
        if (std::exchange(ended_, 0) >= many || freed_workspaces || freed_buffers)
            tool::give_memory_back();
        if (!all_.empty() || !buffers_.empty())
            tidy_soon();
    });
}

void workspaces::stop() {
    stopped_ = true;
    tidy_.cancel();
}

}  // namespace proxy
