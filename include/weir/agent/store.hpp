#pragma once

#include <weir/detail/context_of.hpp>
#include <weir/shared/limiter.hpp>
#include <weir/shared/store.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <memory>
#include <string>

/// Limiters that the processes of a machine share through an agent, which asks a store for all of them.
///
/// `agent::server` is the agent, which a program embeds. `agent::store` is its client.
namespace weir::inline v0_2::agent {

namespace detail {
class client;
}

/// A store whose questions an agent on the same machine answers, over a local socket.
///
///     auto const agent = std::make_shared<weir::agent::store>(ctx, "/run/weir/agent.sock");
///     weir::agent::token_bucket calls{ctx, agent, "calls", {.rate = {20'000, 1s}, .burst = 2'000}};
///
/// A limit of at least 4 permits per `server_options::lease` is fetched ahead: a grant takes a round trip on the
/// socket, about as long as a ping over it, and few grants need a question to the server. The processes take turns:
/// each limiter has one question in the line. Prefetch in the processes is not necessary. A slower limit gains nothing
/// from that: the agent passes its questions on, and the store decides.
///
/// Guarantee: a limit that is not fetched ahead has the guarantee of the store. If it is fetched ahead, all processes
/// on all machines use at most `burst + rate * (d + lease + timeout of the agent + timeout)` permits in any time
/// interval d, where each term is the longest one of all agents and processes. `shared_options::prefetch_time` adds to
/// it if the processes prefetch, too. A sliding log counts over a window that is shorter by the same times.
///
/// Waiting: while permits are short, the agent holds a question for half of `shared_options::timeout`, at most 0.4 s,
/// and then replies that there are none yet. The limiter asks again, and keeps its place in the line for up to
/// `shared_options::reach`.
///
/// Failures: the end of the agent is an outage, as the end of a server. The agent rejects questions while its own store
/// is unavailable, and reports the message of a misconfigured one. Permits that a process does not use before it ends
/// count as used.
///
/// Limits: rates and sliding logs, not seats. All processes must use the same rate for a name.
///
/// Lifetime: create it with `std::make_shared`. It may be destroyed before its limiters.
///
/// Threads: as `weir::store`.
class store final : public weir::store {
public:
    /// Makes a store that asks the agent at the socket `path`, at most 107 bytes on Linux. It connects with the first
    /// question. Throws `std::invalid_argument` if the path is invalid.
    store(boost::asio::any_io_executor ex, std::string path);
    /// Makes a store on the executor of `context`. Throws as the other constructor.
    template <weir::detail::context_of<boost::asio::any_io_executor> Context>
    store(Context& context, std::string path)
        : store(boost::asio::any_io_executor(context.get_executor()), std::move(path)) {}
    ~store() override;

    /// Connects to the agent, unless it is connected. It waits for nothing.
    ///
    /// @throws boost::system::system_error if no agent listens at the path, or if this process may not connect; the
    /// text names the path
    void check();

    /// Grants permits; see `weir::store::async_take`.
    void async_take(std::string const& name, question const& q, answer_handler handler) override;
    /// Takes back unused permits; see `weir::store::async_give_back`.
    void async_give_back(std::string const& name, give_back const& what) override;
    /// Accepts every bucket and log: the agent reports what its store does not support. See `weir::store::validate`.
    void validate(policy::shared_bucket const&) const override {}

private:
    std::shared_ptr<detail::client> client_;
};

/// At most one permit in any time interval of a given length, over all processes that use the name.
using interval = shared_interval;
/// A limit of the average rate, with bursts, over all processes that use the name.
using token_bucket = shared_token_bucket;
/// A limit of permits in any time interval of its period, over all processes that use the name.
using sliding_log = shared_sliding_log;

}  // namespace weir::inline v0_2::agent
