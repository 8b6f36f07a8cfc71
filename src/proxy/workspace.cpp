#include "workspace.hpp"

#include "tool/memory.hpp"

#include <chrono>

namespace proxy {

void workspaces::tidy_soon() {
    if (tidies_ || stopped_)
        return;
    tidies_ = true;
    tidy_.expires_after(std::chrono::seconds(1));
    tidy_.async_wait([this](net::error_code ec) {
        tidies_ = false;
        if (ec || stopped_)
            return;
        if (all_.tidy())
            tool::give_memory_back();
        if (!all_.empty())
            tidy_soon();
    });
}

void workspaces::stop() {
    stopped_ = true;
    tidy_.cancel();
}

}  // namespace proxy
