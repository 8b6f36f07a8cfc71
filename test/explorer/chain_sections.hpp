#pragma once

#include <weir/detail/counting_lock.hpp>
#include <weir/stats.hpp>

#include "chain_visit.hpp"
#include "scenario.hpp"
#include "simulation.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

namespace explorer {

/// The actions of a thread under the locks of some cores.
struct chain_section {
    // One observed event of the section.
    struct step {
        enum class kind : std::uint8_t {
            take,
            configure,
            join,
            serve,
            leave,
            chain_joins,
            chain_leaves
        };

        kind what = kind::take;
        ticket taken = 0;  // 0 if it was taken for `who`, a newcomer
        bool by_counting = false;
        amount n = 0;
        int limiter = 0;
        rule next = {};
        visit* who = nullptr;
        time_point now{};
    };

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
    of_each_limiter<std::optional<weir::limiter_stats>> of_core;
    of_each_limiter<std::optional<weir::limiter_stats>> of_limiter;
};

/// The critical sections of a run, with the events that policies and queues received in them.
class chain_sections {
public:
    explicit chain_sections(scheduler const& threads) : threads_(threads) {}

    // Events of a policy.

    [[nodiscard]] ticket took(ticket inner, amount n, time_point now);
    /// Returns the request that this call makes, if the next permits are taken for it: now, and without a wait.
    [[nodiscard]] visit* newcomer(call const& c);
    void took_for(visit& who, int limiter, amount n, time_point now);
    [[nodiscard]] ticket inner(ticket t) const { return t == 0 ? 0 : inner_.at(t); }
    void configured(int limiter, rule const& next, time_point now);

    // Events of a queue, which holds plain requests. An order that ranks chains holds chains, too.

    void joined(request& r);
    void served(request& r, call const&);
    void left(request& r, call const&);
    void chain_joined(request& r, std::size_t index);
    void chain_left(request& r, std::size_t index);
    /// The chain that has just joined is granted there, and leaves next.
    void chain_granted_elsewhere(request& r, std::size_t index);

    // Events of a lock.

    void begins(int core, request* cancels);
    /// Ends the section: its events take effect when the first lock is released.
    chain_section& ends(call& c, int core);
    /// The section only counts: it has taken or put back a permit of this limiter, or nothing. `ends_counting` ends it.
    void counts(call const& c, int limiter, weir::detail::counting what);
    [[nodiscard]] bool only_counts() const;
    /// Ends a section that only counts. One that has counted nothing had no effect, and is forgotten.
    void ends_counting(call& c, int core);

    [[nodiscard]] bool is_one_open() const noexcept { return !open_.empty(); }
    /// The completed sections, in their order: to be removed by the caller.
    std::deque<chain_section> past;

private:
    using step = chain_section::step;

    struct open_section {
        chain_section being;
        chain_section* heard = nullptr;
        unsigned locked = 0;
        bool only_counts = false;
        bool has_counted = false;
    };

    chain_section& publish(open_section& open, call& c);
    void release(int core);
    [[nodiscard]] chain_section& under_way();

    scheduler const& threads_;
    visit* granted_elsewhere_ = nullptr;  // a chain whose next departure was announced
    std::map<ticket, ticket> inner_;
    ticket last_ticket_ = 0;
    std::map<simulated_thread const*, open_section> open_;
};

}  // namespace explorer
