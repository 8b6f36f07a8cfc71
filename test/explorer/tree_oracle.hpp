#pragma once

#include <weir/policy/tree/options.hpp>

#include "oracle.hpp"
#include "simulation.hpp"
#include "tree_permits.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace explorer {

/// The promises of a limiter by a tree of rates. It sees only what a caller sees, and at the end of each critical
/// section which requests have left. By `tree_permits` it must have been their turn.
///
/// The oracle of the simulation keeps the requests, and checks their completions.
class tree_oracle {
public:
    using names = std::vector<std::string>;

    /// `paths`: of each key. `help`: as in `oracle::calls_help`.
    tree_oracle(simulation& world, weir::rate_tree_options const& options, std::vector<names> paths,
                int help);

    void section_begins(call& c);
    /// `seen`: the statistics of the limiter; `now`: its last reading of the clock.
    void section_ends(call& c, weir::limiter_stats const& seen, time_point now);
    /// The present section changes the options, at this time.
    void configured(weir::rate_tree_options const& options, time_point now);

    /// Returns the ticket that the permits of a request must have.
    [[nodiscard]] ticket ticket_of(request const& r) const;

    [[nodiscard]] time_point next_event(time_point now);
    void quiet(oracle::quiet_view const& seen);
    void finished() const;
    [[nodiscard]] weir::limiter_stats const& counted() const noexcept { return counted_; }

private:
    using errc = weir::errc;
    using place = tree_permits::place;

    void judge_before(call& c, time_point now);
    void judge_return(call& c);
    void look_at_the_lines(call& c, time_point now);
    void removed(request& r, call& c, time_point now);
    void grant_in_turn(time_point now);
    [[nodiscard]] request* due(time_point now);
    void judge_help(call const& c, time_point now);
    void judge_enter(call& c, time_point now, bool took);
    void judge_try(call& c, time_point now, bool took);
    [[nodiscard]] ticket take_for_newcomer(std::size_t leaf, amount n, bool took);
    void evict_for(request const& newcomer, call& c, time_point now);
    [[nodiscard]] static std::string name(request const& r);
    /// Returns whether it was dropped for a newcomer, which joined before that.
    [[nodiscard]] static bool makes_way(request const& r);
    void granted(request& r, ticket t, time_point now);
    void rejected(request& r, time_point now);
    void count(error_code ec);
    void check_retry(request const& r, time_point ready, time_point now) const;

    [[nodiscard]] tree_permits::named find(int key) const;
    [[nodiscard]] error_code why_never(int key, amount n) const;
    [[nodiscard]] request* waiting(std::uint64_t number) const;
    [[nodiscard]] bool is_paused(time_point now) const noexcept { return now < pause_ends_; }
    [[nodiscard]] time_point ready_at(std::size_t leaf, amount n, time_point now);

    simulation& world_;
    weir::queue_options queueing_;
    std::vector<names> paths_;
    int help_;
    tree_permits permits_;
    // After a change of options it is not specified which of several waiting leaves is first. A call may also know the
    // time of a request that waits alone, until the waiting requests were examined again.
    bool knows_turns_ = true;
    std::vector<request*> waiting_;  // in order of arrival
    std::size_t waited_before_ = 0;  // this section
    std::vector<std::size_t>
        left_late_;  // leaves, one for each request that timed out in this section
    std::map<request const*, ticket> tickets_;
    std::uint64_t last_number_ = 0;
    time_point pause_ends_ = time_point::min();
    bool rejects_newcomers_ = false;
    bool closed_ = false;
    amount out_ = 0;  // permits
    std::uint64_t live_ = 0;
    weir::limiter_stats counted_;
};

}  // namespace explorer
