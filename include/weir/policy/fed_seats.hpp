#pragma once

#include <weir/amount.hpp>
#include <weir/policy/backoff.hpp>
#include <weir/policy/policy.hpp>
#include <weir/time.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

namespace weir {

/// Seats that many processes share. All who share them must state the same number and the same lease.
struct shared_seats_options {
    /// How many seats there are, 1 to 1,000,000.
    amount seats = 1;

    /// For how long the store keeps the seats of a process without a word from it, 100 ms to 1 h. The process asks for
    /// more time after a third of that. When it dies, its seats are free at the end of the lease.
    duration lease = std::chrono::seconds(10);

    /// How long an answer is waited for, 1 us to a sixth of `lease`. Then the question is asked again.
    duration timeout = std::chrono::milliseconds(50);

    /// While all seats are taken, the store is asked again after this time, less a random part of up to half of it;
    /// sooner where a lease ends before. 1 ms to 60 s. So this is how long a seat may stand empty, and each process
    /// in which requests wait asks up to two questions in that time.
    duration poll = std::chrono::milliseconds(20);
};

/// Throws `std::invalid_argument`, naming the option, the value and the bound, if one is nonsense.
void validate(shared_seats_options const& options);

/// What has come of the questions of shared seats since they were made.
struct shared_seats_stats {
    /// Seats that the store keeps for this process, in use or not.
    amount held = 0;
    /// Questions that were put to the store, and those to which it had not enough seats.
    std::uint64_t questions = 0;
    std::uint64_t denied = 0;
    /// Questions without an answer: nothing has happened, or nobody knows.
    std::uint64_t failed = 0;
    std::uint64_t unknown = 0;
    /// Answers that came in the end, but too late.
    std::uint64_t late = 0;
    /// Seats that were in use when they were lost.
    amount lost = 0;
    /// Whether the store cannot be asked now.
    bool unavailable = false;
    /// How long the last question took to be answered.
    duration round_trip{};
};

namespace policy {

/// The rule of seats that a store keeps for many processes. A process has one holding, of all the seats that it
/// uses, with one lease, which is renewed as a whole. Each question says how many seats it wants to hold from now on. So
/// it may be asked again when its answer is lost, and the same question takes seats, renews them and gives them back.
///
/// One question is under way at a time. A seat that comes home goes to a request that waits here; if none waits, back to
/// the store at once. But after 50 polls, or a lease if that is shorter, what comes home next goes back although
/// requests wait here, and the process asks again only after two polls, so that others come first. Between processes
/// there is no other order, and a request for several seats is granted when the store has so many at once.
///
/// Guarantee: by the record of the store, never more than `seats` are held by all processes together. A process counts
/// its lease from when it asked, and the store from when it was asked, which is later; so no process believes in a seat
/// that another one has, if all clocks go on equally fast, to a thousandth. The times that clocks show do not
/// matter.
///
/// A permit is lost when its lease has ended without an answer, or when the store says so. That happens if the process
/// or the store has stood still, if they cannot reach each other, if the clock of the store was set forward, and if
/// the store has forgotten the holding. In the last two cases another process may have the seat before this
/// one knows: until its next renewal, at most a third of the lease and a timeout later. If the process has stood still, it
/// knows as soon as it looks. What it does without looking only the resource itself can reject, by the
/// fence: the ticket of a permit is the number of its holding, and each holding that begins has a greater number
/// than all before it.
///
/// Under-use: of a process that dies, its seats for a lease; of each seat that comes home to a process in which nobody
/// waits, until others ask again.
///
/// Nothing is granted while the store cannot be asked: a seat that was granted without it would be one too many.
/// Seats that are held stay good until their lease ends. What `charge` takes counts against the seats of this process when
/// it holds some; it is never lost.
///
/// Memory: constant.
class fed_seats {
public:
    using options_type = shared_seats_options;
    using holder_id = std::array<std::uint64_t, 2>;

    /// What a process wants to hold from now on: at least `min` seats and at most `max`. If there are not so many, at
    /// most `keep` of those that it has.
    struct question {
        amount seats = 1;  ///< in all
        std::chrono::microseconds lease{};
        holder_id holder{};        ///< by chance
        std::uint64_t number = 0;  ///< greater for each later question of the holder
        std::int64_t fence = 0;    ///< of the holding that goes on; 0: a new one, and none besides
        amount keep = 0;
        amount min = 0;
        amount max = 0;
        duration timeout{};  ///< how long the answer is waited for
    };
    using order_type = question;

    /// What a store says to a question.
    struct answer {
        amount held = 0;         ///< how many the holding has now
        std::int64_t fence = 0;  ///< of the holding, if it has any
        /// If these are fewer than `min`: how long until the first lease of another one ends, or 0 if there is none.
        std::chrono::microseconds wait{};
        /// With an error instead of an answer: whether it may have been carried out all the same.
        bool lost = false;
    };

    /// Carries orders out.
    class runner {
    public:
        /// Throws, unless it can carry out orders of such a policy. From any thread, under no lock.
        virtual void validate(fed_seats const& p) const = 0;

        /// From any thread, under no lock. What comes of a question is told once.
        virtual void carry_out(order_type const& order) noexcept = 0;

    protected:
        ~runner() = default;
    };

    explicit fed_seats(options_type const& options);

    // As a policy.

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

    // As one that is fed.

    [[nodiscard]] time_point next_order(demand const& d, time_point now) const noexcept;
    [[nodiscard]] std::optional<question> pop_order(demand const& d, time_point now) noexcept;
    bool elapse(time_point now) noexcept;
    [[nodiscard]] std::optional<time_point> barred(time_point now) const noexcept;

    // As one whose permits are on loan.

    [[nodiscard]] bool is_lost(ticket t, time_point now) const noexcept;
    [[nodiscard]] bool is_held(ticket t) const noexcept { return t != no_fence && t == fence_; }
    [[nodiscard]] bool must_go_on() const noexcept {
        return fence_ != no_fence || asking_ || doubtful_until_ != time_point::min();
    }

    // What has come of a question: true if requests that wait may have to be rejected.

    bool answered(std::uint64_t number, answer const& a, time_point now) noexcept;
    /// Without an answer. `lost`: it may have been carried out all the same.
    bool failed(std::uint64_t number, bool lost, time_point now) noexcept;

    [[nodiscard]] shared_seats_stats fed_stats() const noexcept;

private:
    static constexpr ticket no_fence = 0;
    static constexpr std::uint32_t failures_of_outage = 5;

    /// What was asked last.
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
    [[nodiscard]] bool lacks_seats(demand const& d, time_point now) const noexcept;
    [[nodiscard]] bool lacks_for_head(demand const& d, time_point now) const noexcept;
    [[nodiscard]] time_point next_question(demand const& d, time_point now) const noexcept;
    [[nodiscard]] duration pause() const noexcept;
    void begin_doubt(time_point now) noexcept;
    void lose() noexcept;

    options_type options_;
    holder_id holder_;
    amount held_ = 0;          // at least
    amount used_ = 0;          // of permits whose ticket is `fence_`
    amount owed_ = 0;          // of those without a ticket: by `charge`
    ticket fence_ = no_fence;  // of the holding, if there is one
    ticket lost_ = no_fence;   // of the last one that was lost
    time_point until_{};       // the end of its lease
    time_point renewed_{};     // when the lease began
    time_point yields_at_{};   // from then on, what comes home is for other processes
    bool yields_ = false;      // something has
    time_point poll_at_ = time_point::min();
    // The store may keep seats of which nobody knows; until then at most.
    time_point doubtful_until_ = time_point::min();
    bool asking_ = false;
    asked last_;
    backoff backoff_;
    shared_seats_stats stats_;
};

}  // namespace policy
}  // namespace weir
