#include "limit.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>

namespace limiting {
namespace {

bool suits_chains(weir::queue_order order) {
    using enum weir::queue_order;
    return order == fifo || order == priority || order == fair;
}

// A limit stays in its chain or outside, and `fair` must know the clients of all its requests.
bool may_change_order(weir::queue_order before, weir::queue_order after) {
    using enum weir::queue_order;
    return suits_chains(before) == suits_chains(after) && (before == fair) == (after == fair);
}

}  // namespace

bool can_be_chained(config::limit const& c) {
    return c.store.empty() && suits_chains(c.queue.order);
}

std::uint32_t node_of(weir::policy::tree_plan const& plan, path_names const& names) {
    std::uint32_t at = 0;
    for (auto const name : names.path()) {
        auto const& kind = plan.kinds[at];
        auto const named = kind.named.find(name);
        at = named == kind.named.end() ? kind.key : named->second;
        if (at == weir::policy::tree_kind::none)
            break;
    }
    return at;
}

std::string state_name(config::limit const& c, std::string const& rule) {
    auto name = c.name;
    if (c.key.empty())
        return name;
    name += '\n';
    for (auto const& part : c.key)
        name += to_string(part) + ", ";
    name += '/' + std::to_string(c.v4_prefix) + " /" + std::to_string(c.v6_prefix);
    return rule.empty() ? name : name + '\n' + rule;
}

bool has_state(weir::limiter_config const& rule) {
    if (auto const* const all = std::get_if<weir::all_options>(&rule.options))
        return std::ranges::any_of(all->parts, has_state);
    return !config::has_seats(rule) || config::is_adaptive(rule);
}

bool can_become(config::limit const& before, config::limit const& after) {
    return after.name == before.name && config::are_of_one_kind(after.rule, before.rule) &&
           after.tree.has_value() == before.tree.has_value() && after.key == before.key &&
           after.v4_prefix == before.v4_prefix && after.v6_prefix == before.v6_prefix &&
           after.max_keys == before.max_keys && after.max_memory == before.max_memory &&
           after.evict_within == before.evict_within && after.when_full == before.when_full &&
           after.priority == before.priority && after.weights == before.weights &&
           after.store == before.store && after.shared_as == before.shared_as &&
           may_change_order(before.queue.order, after.queue.order);
}

}  // namespace limiting
