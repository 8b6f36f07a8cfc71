#pragma once

#include <weir/chain_options.hpp>
#include <weir/permit.hpp>
#include <weir/stats.hpp>

#include "ledger.hpp"
#include "oracle.hpp"
#include "scenario.hpp"
#include "simulation.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace explorer {

/// In how long a time a sliding log beside seats grants its limit.
inline constexpr duration window_of_a_log(5);

/// How many limiters there are that a chain can name.
inline constexpr int chained_limiters = 3;
template <class T>
using of_each_limiter = std::array<T, chained_limiters>;

/// A request for permits of one limiter or of several, as its caller knows it.
struct visit : request {
    enum class way : std::uint8_t { enters, tries_first, tries, charges };

    way asked_by = way::enters;
    std::vector<int> named;  // limiters
    of_each_limiter<amount> asks_of{};
    bool is_chain = false;
    bool lives_elsewhere = false;  // its handler
    weir::chain_options options;

    // What its caller is told.
    bool waits = false;  // the initiating function left it waiting
    bool told = false;
    bool thrown = false;
    of_each_limiter<ticket> tickets{};
    of_each_limiter<duration> waited{};
    std::optional<int> refused_by;
    std::optional<duration> retry_after;

    [[nodiscard]] bool names(int limiter) const noexcept;
    [[nodiscard]] bool asks_for_nothing() const noexcept;
};

/// What chains promise, by the words of chain.hpp, and of plain requests among them.
///
/// It sees what a user can see: calls and what they are told, the grants of each limiter in their order (a policy of a
/// user's own hears of them), the statistics, and which locks a thread has while that happens (the host is a user's,
/// too). It knows no place of a chain, no number and no flag.
///
/// A chain stands in the line of one limiter, which does not let it go, and it is not promised which. So the oracle
/// keeps all cases that are possible, by these words:
///
/// - who comes and is neither granted nor refused stands with a limiter that does not let it go: there is no room, or
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

    // Calls.

    visit& asks(int caller, visit::way by, action const& a, std::vector<int> named,
                of_each_limiter<amount> const& asks_of);
    request& asks_to_drain(int caller);
    void throws(request& r);
    void told(visit& v, error_code ec);
    void told(request& drain, error_code ec);

    // What a policy hears.

    [[nodiscard]] ticket took(ticket inner, amount n, time_point now);
    [[nodiscard]] ticket inner(ticket t) const { return inner_.at(t); }
    void configured(int limiter, rule const& next, time_point now);

    // Critical sections.

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
    // Something that is heard in a section.
    struct step {
        ticket taken = 0;
        amount n = 0;
        int configured = -1;
        rule next = {};
        time_point now{};
    };
    struct section {
        call::kind what = call::kind::other;
        int core = 0;
        int key = call::every_key;
        bool is_first = false;  // of its call
        request* who = nullptr;
        request* cancels = nullptr;
        std::vector<call::part_home> home;
        unsigned cores = 0;  // whose locks it has had
        time_point now{};
        std::vector<step> steps;
        std::array<std::optional<weir::limiter_stats>, chained_limiters> of_core;
        of_each_limiter<std::optional<weir::limiter_stats>> of_limiter;
    };
    // What a thread does under locks. It has happened when the first of them is let go of.
    struct open_section {
        section being;
        section* heard = nullptr;
        unsigned locked = 0;
    };

    // Where a request stands that waits.
    struct place {
        static constexpr int all = chained_limiters;

        visit* who = nullptr;
        int where = 0;  // a limiter, or all: it reserves
        int passed = 0;
        bool is_overdue = false;
        time_point reserves_until{};

        friend auto operator<=>(place const&, place const&) = default;
    };
    struct departure {
        visit* who = nullptr;
        time_point at{};
        friend auto operator<=>(departure const&, departure const&) = default;
    };
    // What may be so.
    struct possibility {
        std::vector<place> waiting;   // in the order of arrival
        std::vector<departure> left;  // refused, and not yet counted in `counts_`
        friend auto operator<=>(possibility const&, possibility const&) = default;
    };
    using cases = std::set<possibility>;

    enum class answer : std::uint8_t { no, perhaps, yes };
    enum class doors : std::uint8_t { open, no_newcomers, shut };

    struct state {
        limiter_kind is;
        std::unique_ptr<ledger> book;
        doors door = doors::open;
    };
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
    void replay(section& s);
    void note_call(section const& s);
    void grant(section const& s, std::size_t first);
    void arrives(section const& s, visit& v);
    void settle(section const& s);
    void note_who_is_idle();
    void compare(section const& s, int core);

    // What is so in a case.
    [[nodiscard]] unsigned locks_of(visit const& v) const;
    [[nodiscard]] static bool stands(place const& p, int limiter);
    [[nodiscard]] answer barred(possibility const& c, visit const& v, int limiter) const;
    [[nodiscard]] bool names_one_of(visit const& v, int core) const;
    [[nodiscard]] section& under_way();
    [[nodiscard]] answer lets(possibility const& c, visit const& v, int limiter,
                              time_point now) const;
    [[nodiscard]] bool may_leave(visit const& v, time_point now) const;
    [[nodiscard]] bool may_reserve(possibility const& c, place const& p) const;
    [[nodiscard]] bool has_place(possibility const& c, int limiter) const;
    [[nodiscard]] std::optional<std::string> wrong_arrival(possibility const& c, visit const& v,
                                                           time_point now) const;
    [[nodiscard]] std::optional<std::string> wrong_counts(possibility const& c, section const& s,
                                                          int core) const;
    [[nodiscard]] std::optional<std::string> oversleeps(possibility const& c, time_point now) const;
    [[nodiscard]] bool may_be_late(visit const& v, int limiter, time_point now) const;
    [[nodiscard]] static std::string text(possibility const& c);

    // Drops the cases for which `wrong` has a reason.
    template <class Wrong>
    void drop(std::string_view invariant, std::string const& what, Wrong wrong);

    void count_grant(visit const& v, time_point now, bool at_once);
    static void count_refusal(weir::limiter_stats& to, error_code ec,
                              std::optional<duration> waited);
    [[nodiscard]] int counted_at(visit const& v) const;
    [[nodiscard]] bool fits(int limiter, amount n, time_point now) const;
    [[nodiscard]] duration slack() const;

    simulation& world_;
    weir::queue_options queueing_;
    of_each_limiter<state> limiters_;
    std::array<core_state, chained_limiters> cores_;
    int number_of_cores_ = 0;

    std::vector<std::unique_ptr<visit>> visits_;
    std::vector<std::unique_ptr<request>> drains_;
    std::map<ticket, ticket> inner_;
    std::map<ticket, time_point> taken_at_;
    std::map<ticket, owner> owners_;
    ticket last_ticket_ = 0;

    std::deque<section> heard_;
    std::map<simulated_thread*, open_section> open_;

    cases cases_{possibility()};
    std::array<std::optional<oracle::quiet_view>, chained_limiters> views_;
    std::uint64_t arrivals_ = 0;
    std::vector<visit*> waiting_;  // in each case, or refused in some
    std::map<std::pair<visit*, int>, time_point> fits_since_;
    weir::limiter_stats told_;
};

}  // namespace explorer
