#pragma once

#include <weir/stats.hpp>

#include "chain_cases.hpp"
#include "chain_sections.hpp"
#include "chain_visit.hpp"
#include "oracle.hpp"
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

/// What chains promise, by the words of chain.hpp, and of plain requests among them.
///
/// It sees what a user can see: calls and what they are told, the grants of each limiter in their order (a policy of a
/// user's own hears of them), the statistics, and which locks a thread has while that happens (the host is a user's,
/// too). The queue of each limiter tells it which plain requests join and leave, and `order_book` knows which of them is
/// next. It knows no place of a chain, no number and no flag.
///
/// A chain stands in the line of one limiter, which does not let it go, and it is not promised which. So the oracle
/// keeps all cases that are possible, by these words:
///
/// - who comes and is neither granted nor rejected stands with a limiter that does not let it go: there is no room, or
///   another one stands before it there;
/// - a chain moves in a section that has the locks of all its limiters, away from one that lets it go, to one that
///   does not; so it loses a turn;
/// - with `passes` turns lost it is overdue, and reserves in such a section, if it is the oldest that is overdue at each
///   of its limiters and none reserves there: then it stands in all lines; after `reserve_for` it stands in one;
/// - it leaves in such a section, for a reason that there is then.
///
/// A case is dropped as soon as what is seen contradicts it: a grant to somebody while another one stands before it,
/// statistics that count others in a line, a chain that sleeps where it would be let go. What happens is wrong if
/// no case is left. "Never overtaken" is so: in each case somebody is overtaken.
///
/// What is heard is judged at the next quiet moment, when all are told what became of them.
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

    /// Of a core that has but one.
    [[nodiscard]] int limiter_of(int core) const;

    // Calls.

    visit& asks(int caller, visit::way by, action const& a, std::vector<int> named,
                of_each_limiter<amount> const& asks_of);
    request& asks_to_drain(int caller);
    void throws(request& r);
    void told(visit& v, error_code ec);
    void told(request& drain, error_code ec);

    // Critical sections.

    /// What policies and queues hear.
    [[nodiscard]] chain_sections& sections() noexcept { return sections_; }
    void section_begins(call& c, int core);
    /// `of_core` counts for all limiters of the core; `of_limiter` says what is so now with each.
    void section_ends(call& c, int core, weir::limiter_stats const& of_core,
                      of_each_limiter<weir::limiter_stats> const& of_limiter);

    // Quiet moments.

    void quiet_core(int core, oracle::quiet_view const& seen);
    void quiet(time_point now);
    [[nodiscard]] time_point next_event(time_point now) const;
    void home_has_ended() const;
    void finished() const;
    [[nodiscard]] weir::limiter_stats const& counted() const noexcept { return told_; }

private:
    using section = chain_section;
    using doors = chained_limiter::doors;
    using place = chain_cases::place;
    using possibility = chain_cases::possibility;

    struct core_state {
        bool gone = false;  // the limiter object, or the context
        bool dead = false;  // the context
        weir::limiter_stats counts;
        std::vector<request*> drains;
    };
    struct owner {
        visit* who = nullptr;
        int limiter = 0;
    };

    // Replays.
    void replay(section const& s);
    void note_call(section const& s);
    void joins(visit& v, time_point now);
    void is_served(visit& v, time_point now);
    void leaves(section const& s, visit& v);
    void grant(section const& s, std::size_t first);
    void arrives(section const& s, visit& v);
    void settle(section const& s);
    void note_who_is_idle();
    void compare(section const& s, int core);

    // What is so in a case.
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
    std::map<ticket, time_point> taken_at_;
    std::map<ticket, owner> owners_;

    chain_sections sections_;
    chain_cases cases_;
    std::array<std::optional<oracle::quiet_view>, chained_limiters> views_;
    std::uint64_t arrivals_ = 0;
    std::optional<int> made_way_;  // a limiter where somebody was dropped in this section
    std::vector<visit*> waiting_;  // in each case, or rejected in some
    std::map<std::pair<visit*, int>, time_point> fits_since_;
    weir::limiter_stats told_;
};

}  // namespace explorer
