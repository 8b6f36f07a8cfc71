#pragma once

#include <weir/agent/server.hpp>
#include <weir/detail/context_user.hpp>
#include <weir/detail/executor_until_end.hpp>

#include "frames.hpp"
#include "limit.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace weir::inline v0_2::agent::detail {

class neighbour;

/// The sockets and the limits of an agent. All members but `begin`, `close`, `post` and `stats` are called
/// on its strand.
class agent final : public weir::detail::context_user, public std::enable_shared_from_this<agent> {
public:
    /// Listens. Throws as the constructor of `server`.
    agent(boost::asio::any_io_executor const& ex, std::shared_ptr<weir::store> at,
          server_options const& options);
    ~agent();
    /// Must be called once, before all other members.
    void begin();
    void close() noexcept;
    [[nodiscard]] server_stats stats() const noexcept;
    void context_ends() noexcept override;

    /// Returns the limit that a question is about; null if the store must decide. Throws `std::invalid_argument` if the
    /// store does not support it.
    [[nodiscard]] std::shared_ptr<limit> find(std::string const& name,
                                              policy::shared_bucket const& bucket);
    void take_back(give_back const& what);
    [[nodiscard]] weir::store& upstream() noexcept { return *store_; }
    /// Calls `f()` on the strand, unless the context has ended. Any thread may call it.
    template <class F>
    void post(F f) {
        std::lock_guard lock(mutex_);
        if (!strand_.has_ended())
            boost::asio::post(*strand_, std::move(f));
    }
    void note_question() noexcept { ++questions_; }
    void note_grant() noexcept { ++grants_; }
    void forget(std::shared_ptr<neighbour> const& one);

private:
    using protocol = boost::asio::local::stream_protocol;
    // Limits and logs have separate names.
    using limit_id = std::pair<bool, std::string>;
    struct known_limit {
        std::shared_ptr<limit> here;
        std::list<limit_id>::iterator place;  // in `used_`
    };

    void accept();
    void pause();
    [[nodiscard]] bool has_room();
    void end();

    server_options const options_;
    std::shared_ptr<weir::store> store_;

    std::mutex mutex_;  // protects `strand_`
    weir::detail::executor_until_end<> strand_;

    std::optional<protocol::acceptor> acceptor_;  // none: closed
    std::optional<boost::asio::steady_timer> pause_;
    bool accepts_ = false;
    std::set<std::shared_ptr<neighbour>> neighbours_;
    std::map<limit_id, known_limit> limits_;
    std::list<limit_id> used_;  // the last used first

    std::atomic<amount> connections_ = 0;
    std::atomic<amount> limit_count_ = 0;
    std::atomic<std::uint64_t> questions_ = 0;
    std::atomic<std::uint64_t> grants_ = 0;
};

}  // namespace weir::inline v0_2::agent::detail
