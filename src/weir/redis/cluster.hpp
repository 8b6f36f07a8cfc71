#pragma once

#include <weir/redis/store.hpp>
#include <weir/time.hpp>

#include "address.hpp"
#include "client.hpp"
#include "script_command.hpp"
#include "scripts.hpp"
#include "servers.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::inline v0_2::redis::detail {

/// Returns the slot of a key in a Redis Cluster, from 0 to 16,383. The part in braces decides.
[[nodiscard]] std::size_t slot_of(std::string_view key);

/// The clients of a store: one for the servers of its URL, and in a Redis Cluster one more for each node.
///
/// A store does not ask whether a server belongs to a cluster: the first reply that redirects a question shows it. Each
/// key belongs to one of 16,384 slots, and each slot to a node. `MOVED` names the node of a slot, and this is
/// remembered. `ASK` names the node for one question only, while a slot moves. A slot whose node is unknown has the
/// client of the URL, whose server redirects the question if it is not the right one.
///
/// A command is redirected at most five times. When the connection to a node ends, or the node has left the cluster,
/// its slots are forgotten. A command that it did not get then goes to the client of the URL, once: the server there
/// knows whether another node has replaced the failed one. That client also tries the nodes that were learned last, so
/// the servers of the URL may vanish.
///
/// Any thread may call any member at any time. One lock guards the slots and the nodes; no command is sent under it.
class cluster : public std::enable_shared_from_this<cluster> {
public:
    cluster(boost::asio::any_io_executor ex, options const& o, std::shared_ptr<servers> known);
    /// Must be called once, before all other members.
    void begin();

    /// Sends a script, within `timeout`. The handler is called at most once, on the executor, under no lock.
    void run(script what, std::string const& name, std::vector<std::string> arguments,
             duration timeout, script_command::handler h);
    /// Asks whether the server runs writing scripts for the limiter, within the time limit for connecting to a server.
    void check(std::string const& name, script_command::handler h);

    /// Takes the first command of `ended`, which has an error from the client `by`, if another client may succeed.
    /// Returns whether it took the command.
    [[nodiscard]] bool redirect(commands& ended, client const& by);
    /// Forgets the slots of a node.
    void forget(client const& node);

private:
    static constexpr std::uint8_t most_redirections = 5;
    static constexpr std::size_t most_nodes = 1000;
    struct node {
        std::string place;
        std::shared_ptr<client> at;
        bool has_slots = false;
    };

    void send(std::optional<script> what, std::string key, std::vector<std::string> arguments,
              duration timeout, script_command::handler h);
    [[nodiscard]] std::shared_ptr<client> next_for(script_command& one, client const& by);
    [[nodiscard]] std::shared_ptr<client> client_at(address const& where, std::string_view key,
                                                    bool is_lasting);

    duration connect_timeout_;
    std::shared_ptr<servers> servers_;
    std::shared_ptr<client> home_;  // for the servers of the URL

    std::atomic<bool> is_cluster_ = false;
    std::mutex mutex_;
    std::vector<node> nodes_;
    std::vector<std::uint16_t>
        slots_;  // by slot: 1 plus the index of its node; 0: the node is unknown
};

}  // namespace weir::inline v0_2::redis::detail
