#pragma once

#include "net/asio.hpp"
#include "net/watchdog.hpp"
#include "plan.hpp"

#include <memory>

namespace proxy {

/// The health checks of a plan, on the thread of `context`, for as long as it lives: each server is asked at once, and then
/// again and again.
class health_checks {
public:
    health_checks(asio::io_context& context, net::watchdog& dog, std::shared_ptr<plan const> p);
    ~health_checks();

private:
    struct one;
    static net::task<> look_after(std::shared_ptr<one> check);

    std::vector<std::shared_ptr<one>> all_;
};

}  // namespace proxy
