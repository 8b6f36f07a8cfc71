#pragma once

#include <weir/policy/tree/options.hpp>

#include "invariant.hpp"
#include "schedule.hpp"
#include "support/rate_tree_oracle.hpp"
#include "support/rate_tree_turns_oracle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace explorer {

using weir::amount;

/// The permits of a tree of rates, and the turns of the leaves that wait for them: the words of `policy::rate_tree` and
/// `policy::rate_tree_turns`, as the oracles of their unit tests have them. It also bounds the grants of each node over
/// all time intervals, independently of these oracles.
class tree_permits {
public:
    using bucket = support::rate_tree_oracle::bucket;
    using request = support::rate_tree_turns_oracle::request;

    tree_permits(weir::rate_tree_options const& options, time_point now)
        : permits_(options), turns_(std::in_place, permits_, options), now_(now) {
        bound_grants();
    }
    tree_permits(tree_permits const&) = delete;
    tree_permits& operator=(tree_permits const&) = delete;

    /// The kind of node that a path names.
    enum class place : std::uint8_t { leaf, inner, nowhere };
    struct named {
        place is = place::nowhere;
        std::size_t node = 0;
    };
    [[nodiscard]] named find(std::span<std::string const> names) const {
        std::size_t at = 0;
        for (auto const& name : names) {
            auto const& below = nodes()[at].children;
            auto const child =
                std::ranges::find(below, name, [&](std::size_t c) { return name_of(c); });
            if (child == below.end())
                return {};
            at = *child;
        }
        return {permits_.is_leaf(at) ? place::leaf : place::inner, at};
    }
    /// Returns the paths of all leaves.
    [[nodiscard]] std::vector<std::vector<std::string>> leaves() const {
        std::vector<std::vector<std::string>> all;
        for (std::size_t i = 0; i != nodes().size(); ++i) {
            if (!permits_.is_leaf(i))
                continue;
            std::vector<std::string> names;
            for (auto u = i; u != 0; u = nodes()[u].parent)
                names.insert(names.begin(), name_of(u));
            all.push_back(std::move(names));
        }
        return all;
    }
    [[nodiscard]] std::int64_t parts_of_a_permit() const { return permits_.in_parts(1); }
    [[nodiscard]] amount capacity(std::size_t leaf) const { return permits_.most_at_once(leaf); }

    void pass(time_point now) {
        auto const length = (now - now_).count();
        if (length < 0)
            violated(invariant::verdict, "the time of an event goes back");
        permits_.pass(length);
        now_ = now;
    }

    // Requests that wait, in order of arrival.

    void push(std::size_t leaf, request const& r) { turns_->push(leaf, r); }
    /// No effect if the request is not there, after a change of options.
    void erase(std::size_t leaf, std::uint64_t id) {
        auto const line = turns_->lines().find(leaf);
        if (line != turns_->lines().end() &&
            std::ranges::count(line->second, id, &request::id) != 0)
            turns_->erase(leaf, id);
    }
    [[nodiscard]] bool waits(std::size_t leaf) const { return turns_->lines().contains(leaf); }
    [[nodiscard]] bool waits_elsewhere(std::size_t leaf) const {
        return turns_->lines().size() > (waits(leaf) ? 1U : 0U);
    }
    [[nodiscard]] std::size_t number_waiting(std::size_t leaf) const {
        auto const line = turns_->lines().find(leaf);
        return line == turns_->lines().end() ? 0 : line->second.size();
    }
    [[nodiscard]] std::uint64_t first(std::size_t leaf) const {
        return turns_->lines().at(leaf).front().id;
    }

    struct grant {
        std::size_t leaf = 0;
        std::size_t from = 0;  // the leaf or the lender
        std::uint64_t id = 0;
    };
    /// Returns the waiting requests of which one is to be granted next; none if none can be granted now. The order of
    /// leaves that have saved the permits makes no difference, and neither does the order of lenders at the same depth.
    [[nodiscard]] std::vector<grant> next() {
        std::vector<grant> found;
        if (!any_can_be_granted())
            return found;
        for (auto const& [leaf, line] : turns_->lines()) {
            if (turns_->has_own_claim(leaf))
                found.push_back({leaf, leaf, line.front().id});
        }
        auto const deepest = found.empty() ? turns_->deepest() : std::nullopt;
        for (std::size_t w = 0; deepest && w != nodes().size(); ++w) {
            if (permits_.is_leaf(w) || !nodes()[w].least || turns_->depth(w) != *deepest ||
                !turns_->can_lend(w))
                continue;
            auto const leaf = turns_->next(w).value();
            found.push_back({leaf, w, first(leaf)});
        }
        return found;
    }
    /// Returns the grants that are possible now if nothing is known about the turns.
    [[nodiscard]] std::vector<grant> possible() {
        std::vector<grant> found;
        for (auto const& [leaf, line] : turns_->lines()) {
            auto const& [n, id] = line.front();
            if (turns_->has_own_claim(leaf)) {
                found.push_back({leaf, leaf, id});
                continue;
            }
            for (auto w = leaf; w != 0 && permits_.can_take(w, n);) {
                w = nodes()[w].parent;
                if (can_lend(w, n))
                    found.push_back({leaf, w, id});
            }
        }
        return found;
    }
    /// Grants the first request of a leaf.
    void serve(grant const& g) {
        auto const n = turns_->lines().at(g.leaf).front().count;
        if (g.from != g.leaf) {
            turns_->measure(g.leaf, g.from, n);
            turns_->serve(g.leaf, g.from);
        }
        take(g.leaf, n, g.from);
        erase(g.leaf, g.id);
    }
    /// Returns the leaf or the lender that grants a newcomer: it waits behind the requests of its leaf, and behind
    /// requests that have a turn at the lender.
    [[nodiscard]] std::optional<std::size_t> for_newcomer(std::size_t leaf, amount n) {
        if (waits(leaf))
            return {};
        auto const& own = nodes()[leaf].least;
        if (own && own->has >= permits_.in_parts(n))
            return leaf;
        for (auto w = leaf; w != 0 && permits_.can_take(w, n);) {
            w = nodes()[w].parent;
            if (can_lend(w, n) && !turns_->next(w))
                return w;
        }
        return {};
    }
    void take(std::size_t leaf, amount n, std::size_t from) {
        permits_.take(leaf, n, from);
        count(leaf, n);
    }

    // Permits that are taken in any state, or put back.

    /// Returns the leaf or the lender. In the turn of the leaf the permits are granted, and its next turn is later.
    std::size_t charge(std::size_t leaf, amount n) {
        auto const from = waits(leaf) ? lender_in_turn(leaf, n) : for_newcomer(leaf, n);
        if (from && waits(leaf)) {
            turns_->measure(leaf, *from, n);
            turns_->serve(leaf, *from);
        }
        auto const payer = from.value_or(permits_.grantor(leaf, n).value_or(permits_.debtor(leaf)));
        permits_.take(leaf, n, payer);
        return payer;
    }
    void put_back(std::size_t leaf, amount n, std::size_t from) {
        permits_.put_back(leaf, n, from);
        count(leaf, -n);
    }
    [[nodiscard]] std::size_t levels(std::size_t leaf, std::size_t above) const {
        return permits_.levels(leaf, above);
    }
    [[nodiscard]] std::size_t above(std::size_t leaf, std::size_t levels) const {
        for (; levels != 0; --levels)
            leaf = nodes()[leaf].parent;
        return leaf;
    }

    // The future, if no permits are taken.

    /// Returns when a leaf can be granted `n` permits without a turn; `unknown` if that is not soon.
    [[nodiscard]] time_point ready_at(std::size_t leaf, amount n) {
        return search(weir::unknown, time_point::max(),
                      [&] { return permits_.grantor(leaf, n).has_value(); });
    }
    /// Returns when a waiting request can be granted, if that is before `end`; otherwise `never`.
    [[nodiscard]] time_point next_at(time_point end) {
        if (turns_->lines().empty())
            return weir::never;
        return search(weir::never, end, [&] { return !next().empty(); });
    }

    /// Changes the options. All turns begin again.
    void configure(weir::rate_tree_options const& options) {
        for (auto& n : permits_.nodes())
            n.is_added = true;  // keys that were not used are full
        support::rate_tree_oracle changed(options);
        changed.take_over(permits_);
        permits_ = std::move(changed);
        turns_.emplace(permits_, options);
        bound_grants();
    }

private:
    static constexpr int soon = 5000;  // nanoseconds

    [[nodiscard]] std::vector<support::rate_tree_oracle::node> const& nodes() const {
        return permits_.nodes();
    }
    [[nodiscard]] std::string name_of(std::size_t i) const {
        auto const& n = nodes()[i];
        auto const name = n.path.substr(n.path.rfind('/') + 1);
        return name == "*" ? fmt::format("key{}", n.key) : name;
    }
    [[nodiscard]] bool can_lend(std::size_t w, amount n) const {
        return nodes()[w].least && n <= permits_.own_burst(w) &&
               permits_.not_saved_by_children(w) >= permits_.in_parts(n);
    }
    // Returns the lowest lender that could lend a waiting leaf `n` permits in its turn, unless the leaf has saved them.
    [[nodiscard]] std::optional<std::size_t> lender_in_turn(std::size_t leaf, amount n) {
        auto const& own = nodes()[leaf].least;
        if (own && own->has >= permits_.in_parts(n))
            return {};
        for (auto w = leaf; w != 0 && permits_.can_take(w, n);) {
            w = nodes()[w].parent;
            if (can_lend(w, n) && turns_->next(w) == leaf)
                return w;
        }
        return {};
    }
    // Much faster than the turns.
    [[nodiscard]] bool any_can_be_granted() const {
        return std::ranges::any_of(turns_->lines(), [&](auto const& l) {
            return permits_.grantor(l.first, l.second.front().count).has_value();
        });
    }
    template <class Happens>
    time_point search(time_point otherwise, time_point end, Happens happens) {
        auto const kept = permits_.nodes();
        auto at = now_;
        int left = soon;
        for (; left != 0 && at < end && !happens(); --left, at += duration(1))
            permits_.pass(1);
        bool const found = left != 0 && at < end;
        permits_.nodes() = kept;
        return found ? at : otherwise;
    }

    // The bounds of `policy::rate_tree`: in any time interval d a node and all nodes below it are granted at most
    // `most_burst + most * (d + 1 ns)`, and the root at most `burst + least * (d + 1 ns)`. For each bucket: the
    // most, over all intervals that end now, that was granted beyond the rate.
    struct bounded {
        support::rate_tree_oracle::parts beyond = 0;
        time_point at{};
    };
    static std::optional<bucket> const& bound_of(support::rate_tree_oracle::node const& n) {
        return n.path == "/" ? n.least : n.most;
    }
    void bound_grants() { bounds_.assign(nodes().size(), {0, now_}); }
    void count(std::size_t leaf, amount n) {
        for (auto i = leaf;; i = nodes()[i].parent) {
            if (auto const& limit = bound_of(nodes()[i])) {
                auto& b = bounds_[i];
                auto const passed = (now_ - b.at).count() * limit->each_ns;
                b.beyond = std::max<support::rate_tree_oracle::parts>(b.beyond - passed, 0) +
                           permits_.in_parts(n);
                b.beyond = std::max<support::rate_tree_oracle::parts>(b.beyond, 0);
                b.at = now_;
                if (b.beyond > permits_.in_parts(limit->burst) + limit->each_ns)
                    violated(invariant::room, fmt::format("{} is granted more than its most and "
                                                          "its burst in an interval",
                                                          nodes()[i].path));
            }
            if (i == 0)
                return;
        }
    }

    support::rate_tree_oracle permits_;
    std::optional<support::rate_tree_turns_oracle> turns_;
    time_point now_;
    std::vector<bounded> bounds_;
};

}  // namespace explorer
