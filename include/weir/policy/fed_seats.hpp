#pragma once

#include <weir/amount.hpp>
#include <weir/policy/outage.hpp>
#include <weir/policy/policy.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace weir::inline v0_2 {

/// Seats that many processes share. All processes must use the same number and the same lease.
struct shared_seats_options {
    /// The number of seats, 1 to 1,000,000.
    amount seats = 1;

    /// The time for which the store keeps the seats of a process without a question from it, 100 ms to 1 h. The process
    /// renews the lease after a third of it. If the process dies, its seats are free at the end of the lease.
    duration lease = std::chrono::seconds(10);

    /// The time limit for a reply, 1 us to a sixth of `lease`. Then the question is sent again.
    duration timeout = std::chrono::milliseconds(50);

    /// The time for which a process keeps an unused seat while no other process waits, 1 ms to 60 s. A process that
    /// waits asks a store without messages at most once in a tenth of it.
    duration poll = std::chrono::milliseconds(20);
};

/// Throws `std::invalid_argument` if an option is invalid; its text names the option, the value and the bound.
void validate(shared_seats_options const& options);

/// Counts of the questions of shared seats since their construction, and their current state.
struct shared_seats_stats {
    /// Seats that the store keeps for this process, in use or not.
    amount held = 0;
    /// Questions to the store.
    std::uint64_t questions = 0;
    /// Questions for which the store had too few seats.
    std::uint64_t denied = 0;
    /// Questions that the server rejected, or that did not reach it.
    std::uint64_t failed = 0;
    /// Questions that the store did not send, because it waits for the server, or before the next attempt to connect.
    std::uint64_t unsent = 0;
    /// Questions without a valid reply in time that the store may have carried out.
    std::uint64_t unknown = 0;
    /// Replies that arrived too late.
    std::uint64_t late = 0;
    /// Seats that were in use when they were lost.
    amount lost = 0;
    /// Whether the store is unavailable now.
    bool unavailable = false;
    /// The time from the last answered question to its reply.
    duration round_trip{};
};

namespace policy {

/// The policy of seats that a store keeps for many processes.
///
/// Questions: a process has one holding, of all the seats that it uses, with one lease, which is renewed as a whole.
/// Each question states how many seats the process wants to hold from now on. So it can be repeated after a lost reply,
/// and the same kind of question takes, renews and returns seats. One question at a time is in progress.
///
/// Order between processes: the store keeps a line of the processes that lack seats, in the order of their questions.
/// Only the first one gets seats, so a request for all seats does not starve. The store grants seats as soon as they
/// are free, and tells the process by a message. Such a grant lasts for `confirm_of`; the next question makes a lease of
/// it. So the grant of a process that died while it waited lapses, and so does its place, after a lease.
///
/// Turns: while no other process waits, a process keeps its seats and asks only to renew its lease. While another
/// process waits, the turn of a process lasts `turn`, and at least one use of a seat. From then on a released seat
/// returns to the store although requests wait here, and with the same question the process joins the end of the line.
/// An unused seat returns to the store after the option `poll`, and while another process waits after a round trip.
///
/// Order in the process: a released seat goes to a request that waits here, while the turn lasts.
///
/// Without messages: a process at place k of the line asks again after 0.8 k of the mean time in which it advances one
/// place, and the first process after an eighth of that time. A holder asks at the end of its turn whether another
/// process waits, and then after twice as long each time, up to half a second.
///
/// Guarantee: by the record of the store, all processes together never hold more than `seats`. A process counts its
/// lease from the time of its question, and the store from the arrival of the question, which is later. So no process
/// relies on a seat that another process has, if all clocks run at the same speed, to a thousandth. The times that
/// clocks show do not matter.
///
/// Loss: a permit is lost when its lease ended without a reply, or when the store reports it. This happens in four
/// cases:
/// - The process or the store was suspended.
/// - They cannot reach each other.
/// - The clock of the store was set forward.
/// - The store lost the holding.
///
/// In the last two cases another process may get the seat before this process detects the loss at its next renewal: at
/// most a third of the lease and a timeout later. A suspended process detects the loss as soon as it checks. Only the
/// resource itself can reject what the process does without a check, by the fencing token: the ticket of a permit is
/// the number of its holding, and each new holding has a greater number than all before it.
///
/// Unused seats: the seats of a process that dies, for a lease; a seat between its release and the message to the next
/// process.
///
/// While the store is unavailable, nothing beyond the held seats is granted, because a seat granted without the store
/// would exceed the limit. Held seats remain valid until their lease ends. `charge` counts against the seats of this
/// process if it holds some; it is never lost.
///
/// Memory: constant.
class fed_seats {
public:
    using options_type = shared_seats_options;
    using holder_id = std::array<std::uint64_t, 2>;

    /// A request to hold at least `min` seats and at most `max` from now on. If there are fewer, the holder keeps at
    /// most `keep` of its seats, and waits in the line. All numbers are absolute, so it can be repeated.
    struct question {
        amount seats = 1;  ///< total number
        std::chrono::microseconds lease{};
        holder_id holder{};        ///< a random id
        std::uint64_t number = 0;  ///< greater for each later question of the holder
        std::int64_t fence = 0;    ///< of the current holding; 0: the holder knows of none
        std::int64_t known = 0;    ///< the newest fencing token that the holder has known
        amount keep = 0;
        amount min = 0;  ///< 0: the holder does not wait
        amount max = 0;
        bool yields =
            false;  ///< the holder first gives up its seats above `keep`, and then waits for `min`
        std::uint64_t channel = 0;  ///< where the holder receives messages; 0: nowhere
        duration timeout{};         ///< the time limit for the reply
    };
    using command_type = question;

    /// The reply of a store to a question.
    struct answer {
        amount held = 0;         ///< the current number of seats of the holding
        std::int64_t fence = 0;  ///< the fencing token of the holding, if it has seats
        /// If the holder is the first in the line: the time until the first lease of another holder ends, or 0 if
        /// there is none. With an error: the time until the next attempt of the store to reach the server; 0 if it does
        /// not pause.
        std::chrono::microseconds wait{};
        amount waits = 0;  ///< the number of other holders in the line
        amount ahead =
            -1;  ///< the number of holders before this one in the line; -1: it is not in the line
        std::int64_t time = 0;  ///< of the store, in microseconds
        bool listens = false;   ///< whether the store sends messages about this question
        /// With an error instead of a reply: whether the store may have carried out the question nevertheless.
        bool lost = false;
        /// With an error: how the question failed. It counts as `no_reply` if it is lost.
        failure_kind kind = failure_kind::refused;
        /// With an error: the message of the server, or where the attempt failed.
        std::string text = {};
    };

    /// A message of the store to a holder, without a question: a grant to the first in the line, or, without seats, the
    /// news that another holder waits. It may be lost, late or repeated.
    struct notice {
        holder_id holder{};
        std::uint64_t channel = 0;
        std::uint64_t number = 0;  ///< of the last question that the store recorded
        amount held = 0;           ///< 0: no grant
        std::int64_t fence = 0;
        std::int64_t time = 0;  ///< of the grant, by the clock of the store
        amount waits = 0;       ///< the number of other holders in the line

        bool operator==(notice const&) const = default;
    };

    /// How long a process keeps its seats while another one waits.
    static constexpr duration turn = std::chrono::milliseconds(50);
    /// Returns for how long a store keeps a grant that the holder has not confirmed by a question: a second, at most
    /// the lease.
    [[nodiscard]] static constexpr std::chrono::microseconds confirm_of(
        std::chrono::microseconds lease) noexcept {
        return std::min<std::chrono::microseconds>(lease, std::chrono::seconds(1));
    }

    /// The interface that carries orders out.
    class runner {
    public:
        /// Throws unless it can carry out the orders of such a policy. Called from any thread, under no lock.
        virtual void validate(fed_seats const& p) const = 0;

        /// Starts an order. Called from any thread, under no lock. It reports the result of a question once.
        virtual void carry_out(command_type const& order) noexcept = 0;

    protected:
        ~runner() = default;
    };

    /// The interface that receives the messages of a store.
    class listener {
    public:
        /// Called on any thread, under no lock.
        virtual void receive(notice const& what) noexcept = 0;
        /// Messages may have been lost. Called on any thread, under no lock.
        virtual void missed_messages() noexcept = 0;

    protected:
        ~listener() = default;
    };

    explicit fed_seats(options_type const& options);

    // The members of a policy.

    static void begin(time_point) noexcept {}
    void take_over(fed_seats& before, time_point now) noexcept;
    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    [[nodiscard]] amount capacity() const noexcept { return options_.seats; }
    [[nodiscard]] static bool timed() noexcept { return true; }
    [[nodiscard]] amount remaining(time_point now) const noexcept;
    [[nodiscard]] amount debt(time_point) const noexcept;
    [[nodiscard]] time_point ready_at(amount n, amount ahead, time_point now) const noexcept;
    ticket take(amount n, time_point now) noexcept;
    bool leave(amount n, ticket t, time_point now) noexcept;
    bool refund(amount n, ticket t, time_point now) noexcept { return leave(n, t, now); }
    ticket merge(ticket a, ticket b, amount n) noexcept;

    // The members of a policy whose permits come from elsewhere.

    [[nodiscard]] time_point next_command(demand const& d, time_point now) const noexcept;
    [[nodiscard]] std::optional<question> pop_command(demand const& d, time_point now) noexcept;
    bool elapse(time_point now) noexcept;
    [[nodiscard]] std::optional<time_point> unavailable_until(time_point now) const noexcept;
    [[nodiscard]] bool is_misconfigured() const noexcept {
        return outage_.current() == outage::state::misconfigured;
    }
    [[nodiscard]] static bool is_unlimited() noexcept { return false; }

    // The members of a policy that leases its permits.

    [[nodiscard]] bool is_lost(ticket t, time_point now) const noexcept;
    [[nodiscard]] bool is_held(ticket t) const noexcept { return t != no_fence && t == fence_; }
    [[nodiscard]] bool must_go_on() const noexcept {
        return fence_ != no_fence || asking_ || stands_ || doubtful_until_ != time_point::min();
    }

    // The results of a question; they return true if the limiter may have to reject waiting requests.

    bool answered(std::uint64_t number, answer const& a, time_point now) noexcept;
    /// Records a question that failed as `a` describes.
    bool failed(std::uint64_t number, answer const& a, time_point now) noexcept;
    /// Records a message.
    void heard(notice const& what, time_point now) noexcept;
    /// Asks the store soon, because messages may have been lost.
    void missed_messages(time_point now) noexcept;

    [[nodiscard]] shared_seats_stats fed_stats() const noexcept;

private:
    static constexpr ticket no_fence = 0;

    /// The last question.
    struct asked {
        std::uint64_t number = 0;
        ticket fence = no_fence;
        amount keep = 0;
        amount min = 0;
        amount max = 0;
        time_point sent{};
    };

    [[nodiscard]] amount spare() const noexcept;
    void give_up(amount n, ticket t) noexcept;
    [[nodiscard]] bool lacks_for_head(demand const& d, time_point now) const noexcept;
    [[nodiscard]] bool has_wrong_place(demand const& d, time_point now) const noexcept;
    [[nodiscard]] bool gives_up_now(demand const& d, time_point now) const noexcept;
    [[nodiscard]] time_point next_question(demand const& d, time_point now) const noexcept;
    [[nodiscard]] time_point unused_until() const noexcept;
    [[nodiscard]] time_point left_until() const noexcept;
    [[nodiscard]] duration pause(answer const& a) const noexcept;
    void begin_turn(time_point now) noexcept;
    void advances(amount ahead, time_point now) noexcept;
    void begin_doubt(time_point now) noexcept;
    void lose() noexcept;

    options_type options_;
    holder_id holder_;
    amount held_ = 0;          // the least number that is certain
    amount used_ = 0;          // by permits with the ticket `fence_`
    amount owed_ = 0;          // by permits without a ticket, from `charge`
    ticket fence_ = no_fence;  // of the holding, if there is one
    ticket known_ = no_fence;  // the newest of all holdings
    ticket lost_ = no_fence;   // of the last lost holding
    time_point until_{};       // the end of its lease
    time_point renew_at_{};
    time_point turn_ends_{};
    time_point spare_since_{};  // the last release of a seat, or the last grant
    bool yields_ = false;       // a seat was released for other processes
    // A release without waiting requests may need an earlier timer. The limiter looks at it only if a command is due.
    bool has_changed_ = false;
    bool is_crowded_ = false;  // another process waits
    time_point check_at_{};    // whether another process waits
    duration check_pause_{};

    bool stands_ = false;  // in the line, by the last reply
    amount ahead_ = 0;
    std::int64_t answer_time_ = 0;  // of the store
    time_point advanced_{};
    duration place_time_ = turn;  // the mean time to advance one place
    time_point poll_at_ = time_point::min();
    // Messages while a question is in progress.
    bool missed_ = false;  // of a grant, or unknown ones
    bool hears_crowd_ = false;

    // Until then the store may keep seats that this process does not know.
    time_point doubtful_until_ = time_point::min();
    bool asking_ = false;
    asked last_;
    outage outage_;
    shared_seats_stats stats_;
};

}  // namespace policy
}  // namespace weir::inline v0_2
