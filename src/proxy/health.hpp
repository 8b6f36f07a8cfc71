#pragma once

#include "net/asio.hpp"
#include "net/watchdog.hpp"
#include "plan.hpp"

#include <memory>

namespace proxy {

/// The health checks of a plan, on the thread of `context`. Each server is checked immediately, and then periodically
/// until this object is destroyed.
class health_checks {
public:
    health_checks(asio::io_context& context, net::watchdog& dog, plan const& p);
    ~health_checks();

private:
    struct one;
    static net::task<> look_after(std::shared_ptr<one> check);

    std::vector<std::shared_ptr<one>> all_;
};

}  // namespace proxy
