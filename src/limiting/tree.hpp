#pragma once

#include <weir/rate_tree.hpp>
#include <weir/saved_tree.hpp>

#include "limit.hpp"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace limiting {

/// A limit with a tree of rates. `World::keys` must have `names_of(request_info)`: the names of the nodes from the root to
/// the leaf of a request.
template <class World>
class tree_limit final : public World::limit {
    using base = limit<World>;
    using request_info = typename base::request_info;

public:
    /// Precondition: `c.tree`.
    tree_limit(typename World::executor const& ex, config::limit const& c,
               typename World::keys keys, typename World::place place)
        : World::limit(c),
          tree_(ex, *c.tree, c.queue),
          keys_(std::move(keys)),
          place_(std::move(place)) {}

    std::shared_ptr<typename base::selection_type const> selection() const override {
        return std::make_shared<typename base::selection_type const>(
            base::configuration(), keys_, nullptr, std::vector<std::shared_ptr<rule_limiters>>());
    }
    path_names names_of(request_info const& who) const override { return keys_.names_of(who); }
    weir::permit try_enter(request_info const& who, selected const& at,
                           weir::error_code& ec) override {
        auto const names = names_of(who);
        return tree_.try_enter(names.path(), place_.of(who, at.cost), ec);
    }
    weir::permit enter_at_once(request_info const& who, selected const& at,
                               weir::error_code& ec) override {
        auto const names = names_of(who);
        return tree_.enter_at_once(names.path(), place_.of(who, at.cost), ec);
    }
    void async_enter(request_info const& who, selected const& at, weir::duration patience,
                     typename base::handler h) override {
        auto const names = names_of(who);
        tree_.async_enter(names.path(), place_.of(who, at.cost), patience, std::move(h));
    }
    typename base::link_type link(request_info const& who, selected const& at) const override {
        auto const names = names_of(who);
        return tree_.with(names.path(), place_.of(who, at.cost));
    }
    void close() noexcept override { tree_.close(); }
    std::vector<saved_part> saved_parts() override {
        return {part_of(state_name(base::configuration()), tree_, nullptr)};
    }
    weir::limiter_stats stats() const override { return tree_.stats().total; }
    weir::snapshot<weir::limiter_stats> snapshot() const override { return tree_.snapshot(); }
    std::optional<tracked_keys> keys() const override {
        return tracked_keys{.count = tree_.stats().keys};
    }

private:
    // The rule of a limit with a tree only states the rate of its root.
    void apply_rule(weir::limiter_config const&) override {}
    void change(config::limit const&, config::limit const& after) override {
        tree_.configure(*after.tree);
        tree_.configure_queue([&](weir::queue_options& queue) { queue = after.queue; });
    }

    weir::basic_rate_tree<typename World::executor, typename World::timer> tree_;
    typename World::keys const keys_;
    typename World::place const place_;
};

}  // namespace limiting
