#pragma once

#include <weir/detail/context_user.hpp>
#include <weir/detail/executor_until_end.hpp>
#include <weir/policy/backoff.hpp>
#include <weir/policy/fed_seats.hpp>
#include <weir/redis/store.hpp>
#include <weir/time.hpp>

#include "alarm.hpp"
#include "connection.hpp"
#include "servers.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weir::inline v0_2::redis::detail {

/// The messages of the server for the holders of seats of one store: one channel, on a separate connection, because a
/// connection that has subscribed takes no scripts.
///
/// The store connects when the server keeps something for a holder: seats, or a place in the line. Otherwise it waits
/// for nothing, so it keeps no `run()` alive. In a cluster each node forwards the messages of all nodes, but a node
/// that has left it does not. So if the server of the connection has sent neither a reply nor a message for
/// `silent_for`, and another one has replied, the store subscribes there. If the server has sent nothing for
/// `silent_for`, it subscribes again; if that is not confirmed within `silent_for`, the connection is closed. After the
/// end of a connection each holder learns that it may have missed messages; until the next one is subscribed, `channel`
/// returns 0, and holders poll.
///
/// One lock guards everything. Asio is called under it, but no listener is.
class subscription final
    : public weir::detail::context_user,
      public connection_owner,
      public std::enable_shared_from_this<subscription> {
    using seats = policy::fed_seats;

public:
    subscription(boost::asio::any_io_executor ex, options const& o,
                 std::shared_ptr<servers const> known);
    /// Must be called once, before all other members.
    void begin();

    /// Passes the messages for `holder` to `to`, while it exists.
    void listen(seats::holder_id const& holder, std::weak_ptr<seats::listener> to);
    /// Returns the channel for the next question; 0 if no messages would arrive now.
    [[nodiscard]] std::uint64_t channel() const;
    /// Records a reply of the server `from`: it keeps something for `holder` until `until`; nothing if that is in the
    /// past.
    void expect(seats::holder_id const& holder, time_point until,
                std::shared_ptr<address const> from) noexcept;

    void context_ends() noexcept override;
    void serve(std::function<void()> const& event) noexcept override;

private:
    enum class stage : std::uint8_t { connecting, greeting, ready };
    struct receiver {
        std::weak_ptr<seats::listener> to;
        time_point expects_until = time_point::min();
    };

    void advance(time_point now);
    void receive(time_point now);
    void look_at_connection(time_point now);
    void end_connection(time_point now) noexcept;
    void greet(time_point now);
    void subscribe(time_point now);
    void connect(time_point now);
    [[nodiscard]] bool is_at_replied() const noexcept;
    [[nodiscard]] time_point needed_until() const noexcept;
    [[nodiscard]] time_point patience_ends() const noexcept;

    options options_;
    std::shared_ptr<servers const> servers_;
    std::shared_ptr<address const> replied_;  // the server of the last reply
    std::shared_ptr<address const> to_;       // the server of the connection, or of the last one
    time_point proved_{};                     // when it had sent a reply or a message
    std::uint64_t channel_;
    std::string channel_name_;

    std::mutex mutable mutex_;
    weir::detail::executor_until_end<> executor_;
    std::optional<alarm> alarm_;

    std::map<seats::holder_id, receiver> receivers_;
    std::vector<std::pair<std::weak_ptr<seats::listener>, seats::notice>> due_;
    bool has_missed_ = false;

    std::shared_ptr<connection> connection_;
    stage stage_ = stage::connecting;
    time_point since_{};     // of the last word from the server
    time_point asked_{};     // of the last word to it
    bool is_asked_ = false;  // something is due
    policy::backoff backoff_;
    time_point retry_at_ = time_point::min();
};

}  // namespace weir::inline v0_2::redis::detail
