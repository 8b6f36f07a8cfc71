#pragma once

#include <weir/stats.hpp>

#include "chain_cases.hpp"
#include "chain_sections.hpp"
#include "chain_visit.hpp"
#include "oracle.hpp"
#include "outcomes.hpp"
#include "scenario.hpp"
#include "simulation.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace explorer {

/// The promises for chains in chain.hpp, and for plain requests among them.
///
/// The oracle sees only what a user can see: calls and their results, the grants of each limiter in their order (a
/// user's policy receives them), the statistics, and the locks of a thread at that time (the host belongs to a user,
/// too). The queue of each limiter reports which plain requests join and leave, and `order_book` computes which of
/// them is next. The oracle sees no position, number or flag of a chain, except in an order that ranks chains: there
/// the queue reports the chains, too, and drops the cases in which they are elsewhere.
///
/// A chain is in the queue of one limiter, which blocks it; it is not promised which limiter. So the oracle keeps all
/// possible cases, by these rules:
///
/// - a newcomer that is neither granted nor rejected joins the queue of a limiter that blocks it: permits are
///   lacking, or another request is before it there;
/// - a chain moves only in a section with the locks of all its limiters, from a limiter that allows it to one that
///   blocks it; so it loses a turn;
/// - with `passes` lost turns it is overdue. It reserves in such a section, if it is the oldest overdue chain at each
///   of its limiters and none reserves there: then it is in all queues; after `reserve_for` it is in one;
/// - it leaves in such a section, for a reason that holds then.
///
/// A case is dropped as soon as an observation contradicts it: a grant while another request is before the granted
/// one, statistics that count other requests in a queue, a chain that sleeps although it would be allowed. It is an
/// error if no case is left. For example, "never overtaken" is violated if a request is overtaken in each case.
///
/// A section may only count, without the rooms: then no chain moves, and the statistics are compared in a later section,
/// in which the rooms know the counted permits.
///
/// Events are judged at the next quiet moment, when the outcomes of all requests are known.
class chain_oracle {
public:
    struct limiter_kind {
        policy which = policy::seats;
        rule in_force;
        int core = 0;
        bool with_a_log = false;  // seats, and a sliding log of the same limit
    };

    chain_oracle(simulation& world, of_each_limiter<limiter_kind> const& limiters);
    ~chain_oracle();

    [[nodiscard]] static chain_oracle& current() noexcept;

    /// Returns the limiter of a core that has only one.
    [[nodiscard]] int limiter_of(int core) const;

    // Calls.

    visit& asks(int caller, visit::way by, action const& a, std::vector<int> named,
                of_each_limiter<amount> const& asks_of);
    request& asks_to_drain(int caller);
    void throws(request& r);
    void told(visit& v, error_code ec);
    void told(request& drain, error_code ec);

    // Critical sections.

    /// The events that policies and queues receive.
    [[nodiscard]] chain_sections& sections() noexcept { return sections_; }
    void section_begins(call& c, int core);
    /// `of_core` counts for all limiters of the core; `of_limiter` describes the present state of each.
    void section_ends(call& c, int core, weir::limiter_stats const& of_core,
                      of_each_limiter<weir::limiter_stats> const& of_limiter);

    // Quiet moments.

    void quiet_core(int core, oracle::quiet_view const& seen);
    void quiet(time_point now);
    [[nodiscard]] time_point next_event(time_point now) const;
    void home_has_ended() const;
    void finished() const;
    [[nodiscard]] outcomes const& counted() const noexcept { return told_; }

private:
    using section = chain_section;
    using doors = chained_limiter::doors;
    using place = chain_cases::place;
    using possibility = chain_cases::possibility;

    struct core_state {
        bool gone = false;        // the limiter object, or the context
        bool dead = false;        // the context
        bool waits_known = true;  // all callers received their permits, which report the waits
        weir::limiter_stats counts;
        std::vector<request*> drains;
    };
    struct owner {
        visit* who = nullptr;
        int limiter = 0;
    };

    /// Returns the receiver of permits that were taken; none if it is unknown.
    [[nodiscard]] owner owner_of(section::step const& taken) const;

    // Replays.
    void replay(section const& s);
    void note_call(section const& s);
    void joins(visit& v, time_point now);
    void comes_to(visit& v, int limiter, time_point now);
    void is_served(visit& v, time_point now);
    void leaves(section const& s, visit& v);
    void grant(section const& s, std::size_t first);
    void arrives(section const& s, visit& v);
    void settle(section const& s);
    void note_who_is_idle();
    void compare(section const& s, int core);

    // Questions about one case.
    [[nodiscard]] bool names_one_of(visit const& v, int core) const;
    [[nodiscard]] bool has_let(possibility const& c, visit const& v, int limiter,
                               time_point now) const;
    [[nodiscard]] bool may_leave(visit const& v, time_point now) const;
    [[nodiscard]] bool may_be_shed(section const& s, visit const& v) const;
    [[nodiscard]] bool has_place(possibility const& c, visit const& v, int limiter) const;
    [[nodiscard]] std::optional<std::string> wrong_arrival(possibility const& c, visit const& v,
                                                           time_point now) const;
    [[nodiscard]] std::optional<std::string> wrong_counts(possibility const& c, section const& s,
                                                          int core) const;
    [[nodiscard]] std::optional<std::string> oversleeps(possibility const& c, time_point now) const;
    [[nodiscard]] bool may_be_late(visit const& v, int limiter, time_point now) const;

    void count_grant(visit const& v, time_point now, bool at_once);
    static void check_waits(visit const& v, duration waited);
    static void count_rejection(weir::limiter_stats& to, error_code ec,
                                std::optional<duration> waited);
    [[nodiscard]] int counted_at(visit const& v) const;
    [[nodiscard]] chained_limiter& of(int limiter) {
        return limiters_[static_cast<std::size_t>(limiter)];
    }
    [[nodiscard]] chained_limiter const& of(int limiter) const {
        return limiters_[static_cast<std::size_t>(limiter)];
    }
    [[nodiscard]] duration slack() const;

    simulation& world_;
    weir::queue_options queueing_;
    std::vector<chained_limiter> limiters_;
    std::array<core_state, chained_limiters> cores_;
    int number_of_cores_ = 0;

    std::vector<std::unique_ptr<visit>> visits_;
    std::vector<std::unique_ptr<request>> drains_;
    std::map<ticket, owner> owners_;

    chain_sections sections_;
    chain_cases cases_;
    std::array<std::optional<oracle::quiet_view>, chained_limiters> views_;
    std::uint64_t arrivals_ = 0;
    std::optional<int> made_way_;  // a limiter where a request was dropped in this section
    std::vector<visit*> waiting_;  // in each case, or rejected in some
    std::map<std::pair<visit*, int>, time_point> fits_since_;
    outcomes told_;
};

}  // namespace explorer
