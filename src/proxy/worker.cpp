#include "worker.hpp"

namespace proxy {

void worker::use(std::shared_ptr<plan const> p) {
    plan_ = std::move(p);
    dog_.look_at_all();  // the new plan may not name a server any more
}

void worker::drain() {
    draining_ = true;
    upstreams_.close();
    dog_.stop_if_idle();
    spaces_.stop();
}

void worker::abort() {
    dog_.abort();
}

}  // namespace proxy
