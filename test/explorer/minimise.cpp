#include "minimise.hpp"

#include "attempt.hpp"
#include "world.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

namespace explorer {
namespace {

using clock = std::chrono::steady_clock;

constexpr unsigned seconds_for_one = 5;

// The position of an action: the caller, and its index there.
using position = std::pair<std::size_t, std::size_t>;

class minimiser {
public:
    minimiser(failing_run run, clock::time_point end) : best_(std::move(run)), end_(end) {}

    failing_run operator()() {
        simplify();
        while (drop_actions() && !late()) {}
        find_fewer_switches();
        calm_down();
        return std::move(best_);
    }

private:
    [[nodiscard]] bool late() const { return clock::now() >= end_; }

    // Returns choices with which `s` fails in the same way, if it finds them: the known ones, or random ones.
    [[nodiscard]] std::optional<std::vector<std::uint8_t>> fails(
        scenario const& s, std::uint64_t first_try, std::uint64_t tries) const {
        attempt(
            [&](report& log) {
                for (auto i = first_try; i != first_try + tries; ++i) {
                    chooser by_chance(mix(i, 77), log.log);
                    run(s, by_chance, best_.how_fine, false);
                }
            },
            seconds_for_one);
        if (invariant_of(last_report()) != best_.invariant)
            return std::nullopt;
        return choices_of(last_report());
    }

    [[nodiscard]] bool fails(std::vector<std::uint8_t> const& choices) const {
        attempt(
            [&](report& log) {
                chooser told(choices, log.log);
                run(best_.what, told, best_.how_fine, false);
            },
            seconds_for_one);
        return invariant_of(last_report()) == best_.invariant;
    }

    bool accept(scenario const& s) {
        if (best_.how_fine == grain::sections)
            return false;  // recorded choices are meaningless in another scenario
        auto found = fails(s, 0, 400);
        if (!found)
            return false;
        best_.what = s;
        best_.choices = std::move(*found);
        return true;
    }

    // Tries one simplification of the whole after the other.
    void simplify() {
        auto const attempt_with = [&](auto change) {
            auto s = best_.what;
            change(s);
            if (!late())
                accept(s);
        };
        attempt_with([](scenario& s) { s.post_failures = 0; });
        attempt_with([](scenario& s) { s.executors = 1; });
        attempt_with([](scenario& s) { s.in_order = true; });
        attempt_with([](scenario& s) { s.queueing = {.tolerance = duration(0)}; });
        attempt_with([](scenario& s) {
            for (auto& script : s.callers) {
                for (auto& a : script) {
                    a.tries_first = a.posts = a.drops = a.throws = false;
                    a.lives = action::abode::home;
                    a.allocation = 0;
                }
            }
        });
    }

    // Removes as many actions at a time as possible. Returns whether it removed any.
    bool drop_actions() {
        bool any = false;
        std::vector<position> all;
        for (std::size_t i = 0; i != best_.what.callers.size(); ++i) {
            for (std::size_t k = 0; k != best_.what.callers[i].size(); ++k)
                all.emplace_back(i, k);
        }
        for (auto portion = std::max<std::size_t>(all.size() / 2, 1);; portion /= 2) {
            for (std::size_t from = 0; from < all.size() && !late();) {
                auto const to = std::min(from + portion, all.size());
                std::vector<position> kept(all.begin(), all.begin() + static_cast<long>(from));
                kept.insert(kept.end(), all.begin() + static_cast<long>(to), all.end());
                if (accept(only(kept))) {
                    for (auto i = to; i-- != from;)
                        renumber(all, i);
                    any = true;
                } else {
                    from = to;
                }
            }
            if (portion <= 1 || late())
                return any;
        }
    }

    [[nodiscard]] scenario only(std::vector<position> const& kept) const {
        auto s = best_.what;
        for (auto& script : s.callers)
            script.clear();
        for (auto const& [i, k] : kept)
            s.callers[i].push_back(best_.what.callers[i][k]);
        return s;
    }

    // Removes the action at `gone` from the positions.
    static void renumber(std::vector<position>& all, std::size_t gone) {
        auto const [caller, place] = all[gone];
        all.erase(all.begin() + static_cast<long>(gone));
        for (auto& [i, k] : all)
            k -= i == caller && k > place;
    }

    [[nodiscard]] static std::size_t switches(std::vector<std::uint8_t> const& choices) {
        return choices.size() - static_cast<std::size_t>(std::ranges::count(choices, 0));
    }

    void find_fewer_switches() {
        for (std::uint64_t i = 0; i != 100 && !late() && best_.how_fine == grain::fine; ++i) {
            auto found = fails(best_.what, 1000 * (i + 1), 400);
            if (found && switches(*found) < switches(best_.choices))
                best_.choices = std::move(*found);
        }
    }

    // Makes the running thread continue wherever the run still fails with that.
    void calm_down() {
        for (bool again = true; again && !late();) {
            again = false;
            for (auto i = best_.choices.size(); i-- != 0 && !late();) {
                if (best_.choices[i] == 0)
                    continue;
                auto fewer = best_.choices;
                fewer[i] = 0;
                if (fails(fewer)) {
                    best_.choices = std::move(fewer);
                    again = true;
                }
            }
        }
    }

    failing_run best_;
    clock::time_point end_;
};

}  // namespace

failing_run minimise(failing_run run, std::chrono::seconds at_most) {
    return minimiser(std::move(run), clock::now() + at_most)();
}

}  // namespace explorer
