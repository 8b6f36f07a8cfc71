#pragma once

#include "account.hpp"
#include "date.hpp"
#include "net/asio.hpp"
#include "net/listener.hpp"
#include "net/watchdog.hpp"
#include "plan.hpp"
#include "relay.hpp"
#include "session.hpp"
#include "tool/log_file.hpp"
#include "upstream.hpp"
#include "workspace.hpp"

#include <memory>
#include <utility>

namespace proxy {

/// One thread of the proxy. Owns the objects that its connections share. Members other than `context` and
/// `accounting().counts()` are used on that thread only.
class worker {
public:
    /// `pools` and `log` must outlive it; `log` may be null.
    worker(std::shared_ptr<plan const> p, upstream_pool::all& pools, tool::log_file* log)
        : plan_(std::move(p)), upstreams_(context_, dog_, pools), accounting_(log) {}
    worker(worker const&) = delete;
    /// Destroys the pending handlers first: after a forced `stop` of the context they still refer to the members.
    ~worker() { context_.shutdown(); }

    [[nodiscard]] asio::io_context& context() noexcept { return context_; }
    [[nodiscard]] session::shared const& for_sessions() const noexcept { return for_sessions_; }
    [[nodiscard]] account& accounting() noexcept { return accounting_; }
    [[nodiscard]] account const& accounting() const noexcept { return accounting_; }

    /// Serves a connection by the present plan until it ends.
    void serve(net::arrival a);

    /// Sets the plan of the next requests.
    void use(std::shared_ptr<plan const> p);

    /// Closes each connection after its present request.
    void drain();
    /// Closes the remaining connections.
    void abort();

private:
    struct io_context : asio::io_context {
        using asio::execution_context::shutdown;
        using asio::io_context::io_context;
    };

    std::shared_ptr<plan const> plan_;
    io_context context_{1};
    net::watchdog dog_{context_};
    upstream_pool upstreams_;
    account accounting_;
    workspaces spaces_{context_};
    proxy::date date_;
    bool draining_ = false;

    session::shared const for_sessions_{
        .context = context_,
        .plan = plan_,
        .spaces = spaces_,
        .accounting = accounting_,
        .for_relays = {.dog = dog_,
                       .spaces = spaces_,
                       .upstreams = upstreams_,
                       .date = date_,
                       .tunnels = accounting_.tunnels(),
                       .draining = draining_}};
};

}  // namespace proxy
