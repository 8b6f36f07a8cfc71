#pragma once

#include <weir/detail/context_user.hpp>
#include <weir/detail/executor_until_end.hpp>
#include <weir/policy/backoff.hpp>
#include <weir/redis/store.hpp>
#include <weir/time.hpp>

#include "alarm.hpp"
#include "connection.hpp"
#include "replies.hpp"
#include "script_command.hpp"
#include "scripts.hpp"
#include "servers.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::inline v0_2::redis::detail {

/// The commands of a store to its server, and the connection.
///
/// Any thread adds a command, and posts a message to the executor unless one is posted already. `advance` then makes
/// all decisions: which commands are too late, whether to connect, what to send, when to look again. So all commands
/// that are added before the message runs are sent in one write.
///
/// Results are delivered in portions. After each portion a message is posted, behind the messages that the handlers
/// have posted. It sends the handlers' new questions while the rest is delivered. Only if there are no new questions is
/// the timer released: to arm it for each question would cost more than the question.
///
/// Invariants:
/// - One lock guards everything. Asio is called under it, but no handler is called or destroyed under it.
/// - If memory is exhausted, all waiting commands get an error, and the connection is closed: that needs no memory.
/// - No command is sent after its timeout, or while a reply of the server is overdue by its own timeout: a server that
///   was stopped never finds a backlog of outdated questions.
/// - A sent command waits for its reply while the connection lives: permits of a late reply can be given back.
/// - A command is sent again only if the server reported that it was not carried out.
/// - An attempt to connect succeeds when a command gets a reply, other than from a replica: so there is a pause before
///   the next connection to a server that accepts connections and then closes them.
/// - After a failed attempt the next server is tried immediately; after one at each server there is a pause. Commands
///   wait for the end of such a round, also commands that a replica has rejected.
/// - With Sentinels, an attempt asks one of them for the primary, and connects to that within the same time limit. Only
///   a server that calls itself a primary gets a command, unless the user may not ask it.
class client final
    : public weir::detail::context_user,
      public connection_owner,
      public std::enable_shared_from_this<client> {
public:
    /// `nodes` learns of the end of each connection.
    client(boost::asio::any_io_executor ex, options const& o, std::shared_ptr<servers> known,
           std::weak_ptr<cluster> nodes = {});
    /// Must be called once, before all other members.
    void begin();

    /// Adds the one command of a list, and takes it from there. If it throws `std::bad_alloc`, nothing has changed.
    void add(commands& one);
    /// Returns a client for a node, with the options and the executor of this one; null: the context has ended.
    [[nodiscard]] std::shared_ptr<client> make_client(address const& to,
                                                      std::weak_ptr<cluster> nodes);

    void context_ends() noexcept override;
    void serve(std::function<void()> const& event) noexcept override;

private:
    /// A command that starts a connection.
    struct greeting final : command {
        enum class step : std::uint8_t { log_in, select, find_primary, check_role, load };
        step what = step::log_in;
        script loads{};
    };
    enum class stage : std::uint8_t { connecting, greeting, ready };

    void complete(commands& ended) const noexcept;
    void call();
    void advance(time_point now);
    void receive(time_point now);
    void receive_greeting(greeting& what);
    void look_at_connection(time_point now);
    void greet();
    void say(greeting::step what, std::vector<std::string_view> const& words, script loads = {});
    void log_in();
    void pause(time_point now, error_code why, std::string text) noexcept;
    [[nodiscard]] bool is_in_a_round() const noexcept { return failed_ % servers_->size() != 0; }
    [[nodiscard]] duration pause_left(time_point now) const noexcept;
    [[nodiscard]] reply failed_attempt(time_point now) const;
    [[nodiscard]] std::string with_address(std::string text) const;
    void run_out_of_memory() noexcept;
    void drop_late(time_point now);
    void serve_waiting(time_point now);
    void connect(time_point now);
    void connect_to(std::shared_ptr<address const> to);
    void send(commands::iterator which, time_point now);
    template <class Predicate>
    void complete_waiting(Predicate which, reply const& said);
    [[nodiscard]] bool owes_late(time_point now) const noexcept;
    [[nodiscard]] time_point patience_ends() const noexcept;
    [[nodiscard]] time_point next_look() const noexcept;

    options options_;
    std::shared_ptr<servers> servers_;
    std::weak_ptr<cluster> nodes_;

    std::mutex mutex_;
    weir::detail::executor_until_end<> executor_;
    std::optional<alarm> alarm_;
    static constexpr std::size_t portion = 8;  // of results that are delivered at a time
    bool called_ = false;                      // a message is posted

    // Commands to send, and commands with a result.
    commands waiting_;
    commands due_;

    std::shared_ptr<connection> connection_;
    std::shared_ptr<address const> to_;  // the server of the connection, or of the last one
    bool asks_sentinel_ = false;         // that is a Sentinel
    stage stage_ = stage::connecting;
    time_point connect_until_{};
    std::size_t greetings_ = 0;  // without a reply
    bool answers_ = false;       // it has replied to a command
    bool retired_ = false;       // nothing more is sent on it
    bool has_ended_ = false;     // a connection, and `nodes_` does not know it yet
    std::array<std::string, script_count> loaded_;  // the digests; empty: loading is not permitted
    std::vector<std::string_view> words_;           // of a command

    policy::backoff backoff_;
    reply failure_;  // the error of the last attempt; `backoff_` gives the time of the next
    std::size_t failed_ = 0;  // attempts in a row, one at each server in turn
};

template <class Predicate>
void client::complete_waiting(Predicate which, reply const& said) {
    for (auto i = waiting_.begin(); i != waiting_.end();) {
        auto const one = i++;
        if (which(static_cast<script_command const&>(**one))) {
            (*one)->said = said;
            due_.splice(due_.end(), waiting_, one);
        }
    }
}

}  // namespace weir::inline v0_2::redis::detail
