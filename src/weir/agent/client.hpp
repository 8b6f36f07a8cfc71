#pragma once

#include <weir/agent/store.hpp>
#include <weir/detail/context_user.hpp>
#include <weir/detail/executor_until_end.hpp>
#include <weir/error.hpp>
#include <weir/shared/store.hpp>
#include <weir/time.hpp>

#include "frames.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace weir::inline v0_2::agent::detail {

/// The questions of a store to its agent, and the connection.
///
/// Invariants:
/// - One lock guards everything. Asio is called under it, but no handler is called or destroyed under it.
/// - The client waits for the socket only while a reply is due, so that an idle connection keeps no `run()` alive.
/// - Nothing is sent while the oldest question is overdue, so an agent that was stopped finds no backlog.
/// - A question is sent again only if its connection did not accept it.
class client final : public weir::detail::context_user,
                     public std::enable_shared_from_this<client> {
public:
    using handler = store::answer_handler;

    client(boost::asio::any_io_executor ex, std::string path);
    /// Must be called once, before all other members.
    void begin();

    /// See `store::check`.
    void check();
    /// Asks. The id of the question is set here.
    void ask(take q, handler whom);
    /// Sends it if the agent is connected; otherwise the permits count as used.
    void send(give_back const& what);

    void context_ends() noexcept override;

private:
    struct waiting {
        time_point sent;
        time_point until;
        handler whom;
    };
    struct connection {
        explicit connection(boost::asio::any_io_executor const& ex) : socket(ex) {}

        boost::asio::local::stream_protocol::socket socket;
        frame_reader in;
        std::string out;                         // bytes that the socket did not take yet
        std::map<std::uint64_t, waiting> asked;  // by id, so the oldest is first
        std::optional<goodbye> ended_by;
        bool waits_to_read = false;
        bool waits_to_write = false;
    };
    using connection_ptr = std::shared_ptr<connection>;
    /// A question with its result, to be called without the lock.
    struct result {
        handler whom;
        error_code ec;
        store::answer what;
    };
    using results = std::vector<result>;

    void complete(results& all) const noexcept;
    void complete_later(handler whom, error_code ec, store::answer what);
    [[nodiscard]] error_code connect();
    [[nodiscard]] static error_code flush(connection& c) noexcept;
    void wait(connection_ptr const& c);
    void on_event(connection_ptr const& c, bool to_read);
    [[nodiscard]] static error_code receive(connection& c);
    void take_replies(connection& c, results& to) const;
    void end(error_code ec, results& to);

    std::string const path_;
    std::mutex mutex_;
    weir::detail::executor_until_end<> executor_;
    connection_ptr connection_;
    std::uint64_t last_id_ = 0;
};

}  // namespace weir::inline v0_2::agent::detail
