#pragma once

#include <weir/amount.hpp>
#include <weir/policy/tree/options.hpp>
#include <weir/rate.hpp>
#include <weir/time.hpp>

#include "support/random_source.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

namespace support {

/// Makes a tree of up to 3 levels below the root, with periods from 1 to 120 ns. So an oracle can look at each
/// nanosecond.
class rate_tree_maker {
public:
    explicit rate_tree_maker(random_source& random)
        : random_(random), period_(random.one_of<std::int64_t>({7, 12, 30, 36, 60})) {}

    [[nodiscard]] weir::rate_tree_options make() {
        do {
            options_.nodes.clear();
            make_node("/", 1, true);
        } while (options_.nodes.back().least->permits() >
                 options_.nodes.back().least->period().count());
        return options_;
    }

private:
    struct share {
        std::int64_t permits = 0;  // in `period_`
        weir::amount burst = 0;
    };

    // Adds the children first: the least of a node depends on theirs. Returns what the node has for itself.
    share make_node(std::string const& path, weir::amount keys, bool names) {
        auto const depth = path == "/" ? 0 : std::ranges::count(path, '/');
        auto const below = (path == "/" ? "" : path) + "/";
        share sum;
        if (depth < 3 && (depth == 0 || random_.one_in(2))) {
            auto const named = names ? random_.between(0, depth == 0 ? 3 : 2) : 0;
            for (std::int64_t i = 0; i != named; ++i)
                add_to(sum, make_node(below + static_cast<char>('a' + i), 1, true));
            if (named == 0 || random_.one_in(3))
                add_to(sum, make_node(below + "*", depth == 0 ? 3 : 2, false));
        }
        weir::rate_tree_node node{.path = path};
        share own;
        if (path == "/" || sum.burst != 0 || random_.one_in(2)) {
            own.permits = sum.permits + random_.between(sum.permits == 0 ? 1 : 0, 3);
            own.burst = sum.burst + random_.between(1, 5);
            auto const times = random_.between(1, 2);
            node.least = weir::rate(times * own.permits, weir::duration(times * period_));
            node.burst = own.burst;
        }
        if (path != "/" && (!node.least || random_.one_in(2))) {
            auto const least = std::max<std::int64_t>(own.permits, 1);
            auto const more = std::min(least + random_.between(0, 4), std::max(least, period_));
            node.most = weir::rate(more, weir::duration(period_));
            auto const other = weir::rate(1, weir::duration(random_.between(1, 10)));
            if (random_.one_in(3) && (!node.least || other >= *node.least))
                node.most = other;
            node.most_burst = own.burst + random_.between(1, 6);
        }
        if (random_.one_in(3))
            node.weight = random_.between(1, 4);
        if (path.ends_with('*'))
            node.keys = keys;
        options_.nodes.push_back(node);
        return {own.permits * keys, own.burst * keys};
    }
    static void add_to(share& sum, share const& more) {
        sum.permits += more.permits;
        sum.burst += more.burst;
    }

    random_source& random_;
    std::int64_t period_;
    weir::rate_tree_options options_;
};

}  // namespace support
