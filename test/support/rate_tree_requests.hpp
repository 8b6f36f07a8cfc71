#pragma once

#include <weir/policy/rate_tree_turns.hpp>

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace support {

/// The requests that wait in the leaves of a tree of rates, in order of arrival, and their turns.
class rate_tree_requests {
public:
    struct request {
        weir::policy::tree_node leaf;
        weir::amount count = 0;
        std::uint64_t id = 0;
    };
    using place = std::list<request>::iterator;
    struct grant {
        request asked;
        weir::ticket ticket = 0;
    };

    explicit rate_tree_requests(weir::policy::rate_tree tree) : turns_(std::move(tree)) {}

    /// Leaves stay open when no request waits in them.
    void keep_open() { keeps_open_ = true; }

    [[nodiscard]] weir::policy::rate_tree const& tree() const { return turns_.tree(); }
    [[nodiscard]] std::size_t size() const {
        std::size_t n = 0;
        for (auto const& [leaf, line] : lines_)
            n += line.requests.size();
        return n;
    }
    [[nodiscard]] bool has_waiting(weir::policy::tree_node leaf) const {
        auto const found = lines_.find(key(leaf));
        return found != lines_.end() && !found->second.requests.empty();
    }

    std::optional<weir::ticket> try_take(weir::policy::tree_node leaf, weir::amount n,
                                         weir::time_point now) {
        if (has_waiting(leaf) || !turns_.can_take(leaf, n, now))
            return {};
        return turns_.take(leaf, n, now);
    }
    place push(weir::policy::tree_node leaf, weir::amount n, std::uint64_t id,
               weir::time_point now) {
        turns_.open(leaf);
        auto& line = lines_[key(leaf)].requests;
        line.push_back({leaf, n, id});
        wait(leaf, now);
        return std::prev(line.end());
    }
    void erase(place at, weir::time_point now) {
        auto const leaf = at->leaf;
        lines_.at(key(leaf)).requests.erase(at);
        wait(leaf, now);
    }
    std::optional<grant> pop(weir::time_point now) {
        auto const leaf = turns_.next(now);
        if (!leaf)
            return {};
        auto& line = lines_.at(key(*leaf)).requests;
        auto const expected = turns_.can_take(*leaf, line.front().count, now).value();
        grant const result{line.front(), turns_.take(*leaf, line.front().count, now)};
        if (result.ticket != expected)
            return {};
        line.pop_front();
        wait(*leaf, now);
        return result;
    }
    [[nodiscard]] weir::time_point next_at() const { return turns_.next_at(); }

    weir::ticket charge(weir::policy::tree_node leaf, weir::amount n, weir::time_point now) {
        auto const t = turns_.take(leaf, n, now);
        wait(leaf, now);
        return t;
    }
    bool refund(weir::policy::tree_node leaf, weir::amount n, weir::ticket t,
                weir::time_point now) {
        return turns_.refund(leaf, n, t, now);
    }
    std::optional<weir::policy::tree_node> add(weir::policy::tree_node parent) {
        return turns_.add(parent);
    }
    bool forget(weir::policy::tree_node node, weir::time_point now) {
        return turns_.forget(node, now);
    }
    weir::rate_tree_stats stats(weir::policy::tree_node node, weir::time_point now) {
        return turns_.stats(node, now);
    }
    /// Returns the requests that can no longer be granted.
    std::list<request> configure(weir::rate_tree_options const& options, weir::time_point now) {
        std::vector<weir::policy::tree_node> waiting;
        for (auto const& [k, line] : lines_) {
            if (!line.requests.empty())
                waiting.push_back(line.requests.front().leaf);
        }
        turns_.configure(options, waiting, now);
        std::list<request> removed;
        for (auto const leaf : waiting) {
            auto& line = lines_.at(key(leaf)).requests;
            auto const most = tree().is_leaf(leaf) ? tree().capacity(leaf) : 0;
            for (auto at = line.begin(); at != line.end();) {
                auto const one = at++;
                if (one->count > most)
                    removed.splice(removed.end(), line, one);
            }
            wait(leaf, now);
        }
        return removed;
    }

private:
    using number = std::pair<std::uint32_t, std::uint32_t>;
    static number key(weir::policy::tree_node leaf) { return {leaf.kind, leaf.number}; }

    void wait(weir::policy::tree_node leaf, weir::time_point now) {
        auto const found = lines_.find(key(leaf));
        if (found == lines_.end())
            return;
        auto& line = found->second.requests;
        turns_.wait(leaf, line.empty() ? 0 : line.front().count, false, now);
        if (!line.empty() || keeps_open_)
            return;
        turns_.close(leaf, now);
        lines_.erase(found);
    }

    struct line_of_a_leaf {
        std::list<request> requests;
    };
    weir::policy::rate_tree_turns turns_;
    std::map<number, line_of_a_leaf> lines_;
    bool keeps_open_ = false;
};

}  // namespace support
