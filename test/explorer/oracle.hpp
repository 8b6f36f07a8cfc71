#pragma once

#include <weir/detail/operation.hpp>
#include <weir/error.hpp>
#include <weir/outcome.hpp>
#include <weir/permit.hpp>
#include <weir/policy/policy.hpp>
#include <weir/stats.hpp>

#include "invariant.hpp"
#include "ledger.hpp"
#include "order_book.hpp"
#include "scenario.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace explorer {

using weir::error_code;

/// An operation, as the oracle records it.
struct request {
    enum class state : std::uint8_t { entering, waiting, decided, over };

    enum class wish : std::uint8_t { permits, idleness, overdue };

    int caller = 0;
    int key = 0;
    int core = 0;
    wish wants = wish::permits;
    amount n = 0;
    amount more = 0;  // if they are available
    amount got = 0;
    weir::standing how;
    std::optional<duration> patience;       // as requested; otherwise the patience of the queue
    weir::detail::operation* op = nullptr;  // while it exists and is not over

    state is = state::entering;
    time_point since{};
    time_point deadline = weir::never;
    std::uint64_t number = 0;
    bool has_waited = false;
    bool cancelled = false;  // its cancellation came in time
    bool marked = false;     // cancel() came while it waited
    bool doomed = false;     // the context was destroyed: it must not be completed
    bool granted = false;
    error_code error;
    weir::overdue found;
    time_point decided_at{};

    // Fields of a reservation.
    bool kept = false;                        // it has no handler yet
    bool released = false;                    // the core has released it
    weir::detail::operation* heir = nullptr;  // has a handler, and takes over the reservation
    time_point turn = weir::unknown;          // the predicted grant time

    // Fields for an order that groups.
    bool in_queue = false;
    bool may_make_way = false;  // when it left
    std::size_t take = 0;       // its index in the section

    [[nodiscard]] weir::request asks_for() const { return asked_by(n, more, how); }
};

/// The call of a thread, and the events that the policy received meanwhile.
struct call {
    enum class kind : std::uint8_t {
        enter,
        hand_over,
        take_up,
        give_up,
        try_enter,
        enter_at_once,
        charge,
        drain,
        watch,
        leave,
        leave_unused,
        refund,
        overdraw,
        split,
        merge,
        cancel,
        cancel_all,
        shut_down,
        close,
        configure,
        state,
        pause,
        resume,
        abandon,
        context_ends,
        step,
        other,
    };

    static constexpr int every_key = -1;

    kind what = kind::other;
    int core = 0;
    int key = every_key;
    amount n = 0;
    amount more = 0;     // of a try_enter
    weir::standing how;  // of a try_enter
    request* who = nullptr;
    weir::detail::cancel_link* link = nullptr;
    rule change;
    std::vector<time_point> unused;  // of a refund
    ticket taken = 0;                // of the permit that it changes
    bool resets = false;             // a key gets the common options again
    time_point pause_ends{};
    // the time of the call, for a core that gets it as an argument
    std::optional<time_point> told;
    call* outer = nullptr;

    // The parts of the call for each key, if there are several.
    std::vector<call> parts;

    // The permits that it releases, of several limiters.
    struct part_home {
        int limiter = 0;
        request const* whose = nullptr;
        amount n = 0;
        weir::ticket taken = 0;
        bool used = true;
    };
    std::vector<part_home> home_of_each;

    // Kept by the oracle, for the present section.
    request* target = nullptr;
    std::vector<amount> takes;
    std::vector<amount> room;  // the free permits before each
    amount home = 0;
    amount refunded = 0;
    bool configured = false;

    // The results.
    int sections = 0;
    bool granted = false;
    amount got = 0;
    time_point at{};                     // of the first section
    std::optional<error_code> expected;  // of try_enter and take_up
    std::optional<duration> retry_in;    // of a rejected try_enter, if it must be exact
};

/// Observes all events at the end of each critical section, keeps all of them, and implements the definitions.
class oracle {
public:
    oracle(scenario const& s, time_point now);

    // Call these under the lock.
    void locked(call& c);
    void unlocked(call& c, time_point now);

    // The events that the policy receives, under the lock.
    void took(call& c, amount n, ticket t, time_point now);
    void came_home(call& c, amount n, ticket t, time_point now);
    void refunded(call& c, amount n, ticket t, time_point now);
    void merged(ticket a, ticket b, ticket both, amount n);
    void configured(call& c, rule next, time_point now);
    void read_clock(time_point now);
    void stated(statement const& said, time_point now);
    void reported(ticket t, ticket after, weir::outcome o);
    void follows(bool has_rate, double per_second, time_point now);

    /// The wall clock is set: no event of the limiter, which notices it when it reads the clock.
    void clock_is_set() noexcept { step_is_unread_ = step_is_unknown_ = true; }

    // The events that the queue receives, under the lock.
    void joined(request& r);
    void left(request& r, call const& c);
    void served(request& r, call const& c);

    /// Sets the number of operations that a call at the gate touches, some of them more than once: if far fewer wait,
    /// no due operation may be left.
    void calls_help(int budget) noexcept { help_ = budget; }

    /// Allows that the numbers of waiting requests restart after none has waited.
    void numbers_begin_anew() noexcept { begins_anew_ = true; }

    /// Returns the request that waits, or begins to wait, with this operation; null if there is none.
    [[nodiscard]] request* find(weir::detail::operation const* op) const;

    // The present state, together with other keys of the same limiter.
    [[nodiscard]] bool idle() const;
    /// Whether it was idle in the last section after due requests had left, and before the section decided on its own
    /// request.
    [[nodiscard]] bool was_idle_for_newcomer() const noexcept { return idle_for_newcomer_; }
    [[nodiscard]] std::uint64_t callers_waiting() const;
    [[nodiscard]] std::uint64_t live() const noexcept { return live_; }
    [[nodiscard]] amount out() const noexcept { return out_; }
    [[nodiscard]] rule const& in_force() const noexcept { return book_->in_force(); }

    // Call these outside the lock.
    request& asks(int caller, request::wish wants, amount n, std::optional<duration> patience);
    void throws(request& r);  // of the initiating function
    void reserved(request const& r, time_point told) const;
    void completed(request& r, error_code ec, weir::permit const& granted,
                   weir::overdue const& found);
    void destroyed(request& r);
    void holds(ticket id, amount n);  // a permit in use, at a quiet moment

    /// The state when no thread can continue and no message is posted.
    struct quiet_view {
        time_point now;
        bool dead = false;       // the core has no executor any more
        bool abandoned = false;  // the limiter object was destroyed
        bool held = false;       // the context is kept running
        bool timer = false;      // is armed
        std::optional<weir::limiter_stats> stats;
        std::optional<weir::wait_histogram> waits;
    };
    void quiet(quiet_view const& seen);

    /// Checks that these are the waits of the counted requests.
    static void compare(weir::wait_histogram const& waits, weir::limiter_stats const& counted);

    /// Returns the next instant at which something should happen without a call.
    [[nodiscard]] time_point next_event(time_point now) const;

    [[nodiscard]] weir::limiter_stats const& counted() const noexcept { return counted_; }

    /// Checks that nothing is left at the end.
    void finished() const;

private:
    using errc = weir::errc;

    void judge_enter(call& c, time_point now);
    void judge_try(call& c, time_point now);
    void judge_before(call& c);
    void judge_take_up(call& c) const;
    void judge_help(call const& c, time_point now) const;
    void judge_drain(call& c);
    void judge_watch(call& c, time_point now);
    void waits(request& r, time_point now);
    void judge_return(call& c);
    void look_at_the_line(call& c, time_point now);
    void overdue(request& r, time_point now);
    void granted_in_line(request& r, call& c, std::size_t take, time_point now);
    void removed(request& r, call& c, time_point now);
    void grant(request& r, amount n, time_point now);
    void reject(request& r, error_code ec, time_point now);
    void count(error_code ec);

    // The results of the ledger, but nothing is granted before the end of a pause.
    [[nodiscard]] bool is_paused(time_point now) const noexcept { return now < pause_ends_; }
    [[nodiscard]] bool fits(amount n, time_point now) const;
    [[nodiscard]] amount remaining(time_point now) const;
    [[nodiscard]] time_point earliest(amount n, std::vector<amount> const& ahead,
                                      time_point now) const;

    [[nodiscard]] time_point no_earlier(amount n, std::vector<amount> const& ahead,
                                        time_point now) const;

    [[nodiscard]] time_point foreseen(request const& r, time_point now) const;

    [[nodiscard]] std::vector<amount> ahead_of(request const* r) const;
    [[nodiscard]] std::vector<amount> ahead_of_new(request const& newcomer, bool evicts,
                                                   time_point now) const;
    [[nodiscard]] bool may_pass(weir::request const& newcomer, time_point now) const;
    [[nodiscard]] duration lateness() const;
    [[nodiscard]] request* next_caller(time_point now, request const* newcomer = nullptr) const;
    void check_retry(request const& r, bool evicts, time_point now) const;

    weir::queue_options queueing_;
    order_book order_;
    int help_ = 0;
    bool begins_anew_ = false;
    policy policy_;
    bool
        foresees_turns_;  // a reservation has the time of its turn, for which each request before it counts alone
    std::unique_ptr<ledger> book_;     // as the policy implements it
    std::unique_ptr<ledger> promise_;  // by the permits granted and not released, perhaps
    std::vector<std::unique_ptr<request>> all_;
    std::vector<request*> waiting_;  // in order of arrival, including drains
    std::vector<request*> gave_up_;  // in this section, or timed out
    std::uint64_t last_number_ = 0;
    std::uint64_t last_served_ = 0;
    time_point pause_ends_ = time_point::min();
    bool rejects_newcomers_ = false;
    bool closed_ = false;
    bool gone_ = false;                  // the limiter object, or the context
    bool dead_ = false;                  // the context has ended
    std::size_t used_takes_ = 0;         // in this section
    std::uint64_t waited_at_first_ = 0;  // callers, before this section
    std::uint64_t waited_before_ = 0;    // callers, when the queue was last examined
    bool takes_for_the_line_ = false;    // the next take
    bool might_pass_ = false;            // the newcomer with new permits
    bool line_moved_ = false;            // in this section
    bool replaced_ = false;              // in this section a request was evicted for a newcomer
    bool idle_for_newcomer_ = false;     // in this section
    request* fits_ = nullptr;            // the next in the queue, if it fitted
    time_point fits_since_{};
    bool step_is_unread_ = false;   // of the wall clock, since the policy read it last
    bool step_is_unknown_ = false;  // since the core asked the policy for the next turn
    amount out_ = 0;                // permits, as granted to callers
    std::uint64_t live_ = 0;
    weir::limiter_stats counted_;

    struct watched {
        time_point since;
        bool reported = false;
        bool held = false;
    };
    std::map<ticket, watched> watched_;
};

}  // namespace explorer
