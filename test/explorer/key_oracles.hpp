#pragma once

#include "oracle.hpp"
#include "simulation.hpp"

#include <array>
#include <deque>
#include <vector>

namespace explorer {

/// The promises of a limiter with keys. Each key behaves like a plain limiter, so each has a separate oracle. Only
/// idleness concerns all keys of a core together.
class key_oracles {
public:
    static constexpr int keys = 3;
    static constexpr int cores = 2;
    /// The first two keys share a core.
    [[nodiscard]] static constexpr int core_of(int key) noexcept { return key / 2; }

    /// `leave_is_told`: whether the rule is notified of released permits. `help`: as in `calls_help`.
    key_oracles(simulation& world, bool leave_is_told, int help);

    /// The object of this run.
    [[nodiscard]] static key_oracles& current() noexcept;

    [[nodiscard]] oracle& of(int key) { return of_key_[static_cast<std::size_t>(key)]; }
    [[nodiscard]] oracle& judge_of(request::wish wants, int key) {
        return wants == request::wish::permits ? of(key) : world_.judge;
    }
    /// Returns the present call, as it concerns this key.
    [[nodiscard]] call& calling(int key);
    /// Returns the key of the present call.
    [[nodiscard]] int key_called() const;

    /// Sets the time of the present call: the time that was read before the lock was taken, or later.
    void tells_time(time_point read, time_point now);
    [[nodiscard]] time_point now() const;
    /// Changes the options of its key, or of all keys without individual options.
    void changes_rules();

    void section_begins(call& c);
    void section_ends(call& c);

    [[nodiscard]] time_point next_event(time_point now) const;
    /// If the core exists, `stats` of the core exists, and `of_key(key)` returns the statistics of a key.
    template <class OfKey>
    void quiet(station const& at, oracle::quiet_view const& seen, OfKey of_key) {
        for (int k = 0; k != keys; ++k) {
            if (core_of(k) != at.number)
                continue;
            auto view = seen;
            bool const waits = of(k).callers_waiting() != 0;
            view.held = waits && !seen.dead;
            view.timer = seen.timer && waits;
            view.waits.reset();  // they are not counted for each key
            if (seen.stats)
                view.stats = with_counts(k, of_key(k));
            of(k).quiet(view);
        }
        quiet_together(at, seen);
    }
    void finished() const;
    [[nodiscard]] weir::limiter_stats const& counted();

private:
    // The state that all keys of a core have in common.
    struct together {
        rule for_all;
        bool gone = false;  // the limiter object, or the context
        bool was_idle = false;
        std::vector<request*> drains;  // that wait
    };

    template <class F>
    void each_key_of(int core, F f) {
        for (int k = 0; k != keys; ++k) {
            if (core_of(k) == core)
                f(k);
        }
    }
    [[nodiscard]] together& of_core(int core) { return of_core_[static_cast<std::size_t>(core)]; }
    [[nodiscard]] bool idle(int core);
    [[nodiscard]] weir::limiter_stats with_counts(int key, weir::limiter_stats now);
    void describe(call& c);
    void judge_drains(call& c);
    void begins_to_drain(call& c, bool idle);
    void quiet_together(station const& at, oracle::quiet_view const& seen);

    simulation& world_;
    bool leave_is_told_;
    std::deque<oracle> of_key_;
    std::array<bool, keys> has_own_{};  // options
    std::array<together, cores> of_core_;
    weir::limiter_stats sum_;
};

}  // namespace explorer
