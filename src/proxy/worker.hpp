#pragma once

#include "account.hpp"
#include "date.hpp"
#include "net/asio.hpp"
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

/// One thread of the proxy: the owner of what its connections share. All of it but `context` and `told().counts()` is used on
/// that thread.
class worker {
public:
    /// `pools` and `log` must outlive it; `log` may be null.
    worker(std::shared_ptr<plan const> p, upstream_pool::all& pools, tool::log_file* log)
        : plan_(std::move(p)), upstreams_(context_, dog_, pools), told_(log) {}
    worker(worker const&) = delete;
    /// What a forced `stop` of the context has left behind uses the rest until it is destroyed: that comes first.
    ~worker() { context_.shutdown(); }

    [[nodiscard]] asio::io_context& context() noexcept { return context_; }
    [[nodiscard]] session::shared const& for_sessions() const noexcept { return for_sessions_; }
    [[nodiscard]] account& told() noexcept { return told_; }
    [[nodiscard]] account const& told() const noexcept { return told_; }

    /// From the next request on.
    void use(std::shared_ptr<plan const> p);

    /// What is being served is the last.
    void drain();
    /// Cuts off what is still being served.
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
    account told_;
    workspaces spaces_{context_, told_.counts().tunnels};
    proxy::date date_;
    bool draining_ = false;

    session::shared const for_sessions_{
        .context = context_,
        .plan = plan_,
        .spaces = spaces_,
        .told = told_,
        .for_relays = {.dog = dog_,
                       .upstreams = upstreams_,
                       .date = date_,
                       .tunnels = told_.tunnels(),
                       .draining = draining_}};
};

}  // namespace proxy
