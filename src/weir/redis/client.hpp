#pragma once

#include <weir/detail/context_user.hpp>
#include <weir/detail/registry.hpp>
#include <weir/policy/backoff.hpp>
#include <weir/redis/store.hpp>
#include <weir/time.hpp>

#include "address.hpp"
#include "connection.hpp"
#include "replies.hpp"
#include "scripts.hpp"

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

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

namespace weir::redis::detail {

/// What a store has to say to its server, and the connection on which it says it.
///
/// Orders are noted by any thread, and a message is posted to the executor unless one is on its way. Whatever happens
/// then, `advance` decides what follows: which orders are too late, whether to connect, what to send, when to look
/// again. So all orders that are noted before the message arrives leave in one write.
///
/// Of many answers a portion is told of at a time, and then a message is posted, behind what the handlers have posted:
/// for what they ask next, which leaves while the others are told, and for the others. Only if they ask nothing is the
/// timer let go: to arm it for each question would cost more than the question.
///
/// What must hold:
/// - All is guarded by one lock, under which hiredis and Asio are called, but no handler, and none is destroyed.
/// - Where memory is short, all that wait are told so, and the connection is closed: that needs none.
/// - Nothing is sent after its timeout, nor while the server owes an answer beyond the timeout of that: a
///   server that was stopped finds no pile of questions that nobody waits for.
/// - What has been sent is waited for as long as the connection lives: a late answer can be given back.
/// - An order is sent again only if the server has said that it was not carried out.
/// - An attempt has succeeded when an order is answered, other than by a replica: so a server that lets everybody in, and
///   then hangs up, is not connected to without a pause.
class client final
    : public weir::detail::context_user,
      public connection_owner,
      public std::enable_shared_from_this<client> {
public:
    using handler = boost::asio::any_completion_handler<void(reply)>;

    client(boost::asio::any_io_executor ex, options const& o);
    /// To be called once, before all else.
    void begin();

    /// Sends a script, within `timeout`. The handler is called once or never, on the executor, under no lock.
    void run(script what, std::string const& name, std::vector<std::string> arguments,
             duration timeout, handler h);
    /// Asks whether the server runs scripts that write for the limiter, within the time that it may take to connect.
    void check(std::string const& name, handler h);

    void context_ends() noexcept override;
    void serve(std::function<void()> const& event) noexcept override;

private:
    struct order final : command {
        std::optional<script> what;  // none: a check
        bool in_full = false;        // the server has forgotten the script
        std::string key;
        std::vector<std::string> arguments;
        time_point until{};
        time_point since{};  // when it was sent
        handler whom;
    };
    /// What is said first on a connection.
    struct greeting final : command {
        std::optional<script> loads;
        bool logs_in = false;
    };
    enum class stage : std::uint8_t { connecting, greeting, ready };

    void note(std::unique_ptr<order> what);
    static void tell(commands const& told) noexcept;
    void call();
    void advance(time_point now);
    void hear(time_point now);
    void hear_greeting(greeting& what);
    void look_at_connection(time_point now);
    void greet();
    void pause(time_point now, error_code why, std::string text) noexcept;
    void run_out_of_memory() noexcept;
    void drop_late(time_point now);
    void serve_waiting(time_point now);
    void connect(time_point now);
    void send(commands::iterator which, time_point now);
    template <class Predicate>
    void tell_waiting(Predicate which, reply const& said);
    [[nodiscard]] bool owes_late(time_point now) const noexcept;
    [[nodiscard]] time_point patience_ends() const noexcept;
    [[nodiscard]] time_point next_look() const noexcept;
    void arm(time_point at);

    options options_;
    address address_;

    std::mutex mutex_;
    std::optional<boost::asio::any_io_executor> executor_;  // none: the context has ended
    std::optional<weir::detail::registry::entry> entry_;
    std::optional<boost::asio::steady_timer> timer_;
    static constexpr std::size_t portion = 8;  // of orders that are told of at a time
    time_point armed_ = never;
    bool called_ = false;  // a message is on its way

    // Of orders: to be sent, and to be told of.
    commands waiting_;
    commands due_;

    std::shared_ptr<connection> connection_;
    stage stage_ = stage::connecting;
    time_point connect_until_{};
    std::size_t greetings_ = 0;                     // that have no answer yet
    bool answers_ = false;                          // it has answered an order
    bool retired_ = false;                          // nothing more is sent on it
    std::array<std::string, script_count> loaded_;  // the digests; empty: it may not be loaded
    std::vector<std::string_view> words_;           // of a command

    policy::backoff backoff_;
    reply failure_;  // for which nothing is tried until `backoff_` says so
};

}  // namespace weir::redis::detail
