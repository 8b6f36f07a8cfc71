#pragma once

#include "net/asio.hpp"
#include "plan.hpp"

#include <memory>
#include <vector>

namespace proxy {

/// Resolves the names of a plan's servers again, each after `resolve` of its upstream, until this object is destroyed. Use
/// it on the thread of `context`.
class name_lookups {
public:
    name_lookups(asio::io_context& context, plan const& p);
    ~name_lookups();

private:
    struct one;
    static net::task<> look_after(std::shared_ptr<one> lookup);

    std::vector<std::shared_ptr<one>> all_;
};

}  // namespace proxy
