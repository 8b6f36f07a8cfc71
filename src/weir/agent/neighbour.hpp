#pragma once

#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/time.hpp>

#include "frames.hpp"
#include "limit.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>

namespace weir::inline v0_2::agent::detail {

class agent;

/// A client of an agent: its connection, and its questions in the lines of the limits. The store decides about
/// questions that are not worth a line.
///
/// A question that waits too long for a reply gets one without permits. Its place in the line stays, for the next
/// question of the client about the same limit. If none comes, the place is given up, and its permits are free again.
class neighbour final : public std::enable_shared_from_this<neighbour> {
public:
    using socket = boost::asio::local::stream_protocol::socket;

    neighbour(std::shared_ptr<agent> at, socket s);

    void start();
    /// Ends the connection, and all questions.
    void end() noexcept;

private:
    /// A place in the line of a limit.
    struct place {
        place(std::shared_ptr<limit> l, take const& q, boost::asio::any_io_executor const& ex)
            : of(std::move(l)), question(q), count(q.min), alarm(ex) {}

        std::shared_ptr<limit> of;
        take question;           // the last one
        amount count;            // of the permits for which it waits
        bool is_asked = true;    // the last question has no reply
        bool has_ended = false;  // it does not wait any more
        permit granted;          // while it is not asked
        std::uint64_t turn = 0;  // of the alarm
        boost::asio::steady_timer alarm;
        boost::asio::cancellation_signal cancel;
    };
    /// A question at the store.
    struct forwarded {
        forwarded(std::uint64_t question, boost::asio::any_io_executor const& ex)
            : id(question), alarm(ex) {}

        std::uint64_t id;
        boost::asio::steady_timer alarm;
    };
    using place_ptr = std::shared_ptr<place>;

    static constexpr std::size_t most_questions = 16'384;
    static constexpr std::size_t longest_output = std::size_t{1} << 20;

    template <class F>
    void serve(F const& f) noexcept;
    void read();
    void receive(message const& m);
    void receive(take const& q);
    void forward(take const& q);
    [[nodiscard]] bool resume(take const& q, std::shared_ptr<limit> const& at);
    void wait(take const& q, std::shared_ptr<limit> const& at);
    void decide(place_ptr const& p, error_code ec, permit granted);
    void hold(place_ptr const& p);
    void keep(place_ptr const& p);
    template <class F>
    void set_alarm(place_ptr const& p, duration d, F const& f);
    static void leave(place& p) noexcept;
    void remove(place_ptr const& p);
    void grant(take const& q, limit& at, permit granted);
    void reply(answer const& a);
    void flush();

    std::shared_ptr<agent> agent_;
    socket socket_;
    std::array<char, 16384> part_;
    frame_reader in_;
    bool is_known_ = false;  // its first message came
    std::string out_;
    bool waits_to_write_ = false;
    bool is_last_ = false;  // nothing is sent after `out_`
    bool has_ended_ = false;
    std::set<std::shared_ptr<forwarded>> forwarded_;
    std::set<place_ptr> places_;
    std::set<std::pair<limit const*, place_ptr>> left_;  // the places without a question
};

}  // namespace weir::inline v0_2::agent::detail
