#pragma once

#include <weir/agent/server_options.hpp>
#include <weir/amount.hpp>
#include <weir/detail/context_of.hpp>
#include <weir/shared/store.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <cstdint>
#include <memory>
#include <utility>

namespace weir::inline v0_2::agent {

namespace detail {
class agent;
}

/// Counts of an agent since its construction.
struct server_stats {
    /// Connected processes.
    amount connections = 0;
    /// Limits that are fetched ahead.
    amount limits = 0;
    /// Questions of the processes.
    std::uint64_t questions = 0;
    /// Questions with a grant in reply.
    std::uint64_t grants = 0;
};

/// An agent: it answers the questions of the processes on this machine, for limits that a store keeps.
///
///     auto const redis = std::make_shared<weir::redis::store>(ctx, weir::redis::options{.url = "redis://db"});
///     weir::agent::server const agent{ctx, redis, {.path = "/run/weir/agent.sock"}};
///     ctx.run();
///
/// For each limit that is fetched ahead it has one limiter on that store. So a hundred processes cause as few questions
/// at the server as one process. `agent::store` describes the guarantees.
///
/// An agent does not authenticate its peers: the rights of the socket decide. A process that sends an invalid message,
/// or does not read a megabyte of replies, is disconnected. The agent rejects the questions of a process that has
/// 16,384 without a reply.
///
/// Lifetime: until it is closed, it keeps the context running. It keeps the store alive. It may outlive its context.
///
/// Threads: any thread may call the members, and the context may run on several threads.
class server {
public:
    /// Listens, and serves from then on. The socket file of an agent that was killed is replaced.
    ///
    /// @throws std::invalid_argument if an option is invalid, or `at` is null; the text names the option and the bound
    /// @throws boost::system::system_error if it cannot listen
    server(boost::asio::any_io_executor ex, std::shared_ptr<weir::store> at,
           server_options const& options);
    /// Makes an agent on the executor of `context`. Throws as the other constructor.
    template <weir::detail::context_of<boost::asio::any_io_executor> Context>
    server(Context& context, std::shared_ptr<weir::store> at, server_options const& options)
        : server(boost::asio::any_io_executor(context.get_executor()), std::move(at), options) {}
    server(server const&) = delete;
    server& operator=(server const&) = delete;
    ~server();

    /// Ends all connections and removes the socket file, soon. The processes see an outage. It may be called again.
    void close() noexcept;

    /// Returns counts.
    [[nodiscard]] server_stats stats() const noexcept;

private:
    std::shared_ptr<detail::agent> agent_;
};

}  // namespace weir::inline v0_2::agent
