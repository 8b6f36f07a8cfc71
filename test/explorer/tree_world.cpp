#include <weir/detail/tree/path.hpp>
#include <weir/detail/tree/room.hpp>
#include <weir/policy/tree/options.hpp>
#include <weir/tree_path.hpp>

#include "one_limiter.hpp"
#include "support/rate_tree_maker.hpp"
#include "tree_oracle.hpp"
#include "tree_permits.hpp"
#include "world.hpp"
#include "world_of.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

// A limiter by a random tree of rates. The keys of a scenario are its leaves, the root and a path that does not
// exist.

namespace explorer {
namespace {

/// The tree of a scenario, and the options to which it changes, one after the other.
struct tree_plan {
    weir::rate_tree_options at_first;
    std::vector<weir::rate_tree_options> changes;
    std::vector<tree_oracle::names> paths;  // of the keys
    std::vector<amount> capacities;         // of the keys; 0 if it is not a leaf
    std::size_t leaves = 0;                 // the keys that come first
};

// Changes a node such that the options stay valid. Nothing changes for keys: one that was not used is full after a
// change, and it is not specified whether a recovered key counts as not used.
void change_a_node(weir::rate_tree_options& options, support::random_source& random) {
    auto& node = options.nodes[random.index_in(options.nodes)];
    bool const is_named = node.path.find('*') == std::string::npos;
    switch (random.between(0, 3)) {
        case 0:
            node.weight = random.between(1, 4);
            break;
        case 1:
            if (is_named && node.most && node.most->permits() < node.most->period().count())
                node.most = weir::rate(node.most->permits() + 1, node.most->period());
            break;
        case 2:
            if (is_named && node.most)
                *node.most_burst += random.between(1, 3);
            break;
        default:
            auto& root = *std::ranges::find(options.nodes, "/", &weir::rate_tree_node::path);
            *root.burst += random.between(1, 3);
            break;
    }
}

tree_plan plan_of(scenario const& s) {
    support::random_source random(mix(s.failure_seed, 41));
    tree_plan plan;
    plan.at_first = support::rate_tree_maker(random).make();
    tree_permits const permits(plan.at_first, {});
    auto next = plan.at_first;
    while (plan.changes.size() != 4) {
        auto changed = next;
        change_a_node(changed, random);
        if (tree_permits(changed, {}).parts_of_a_permit() == permits.parts_of_a_permit())
            next = changed;
        plan.changes.push_back(next);
    }
    plan.paths = permits.leaves();
    for (auto const& names : plan.paths)
        plan.capacities.push_back(permits.capacity(permits.find(names).node));
    plan.leaves = plan.paths.size();
    auto below_a_leaf = plan.paths.back();
    below_a_leaf.emplace_back("nothing");
    for (auto const& names : {tree_oracle::names{}, below_a_leaf}) {
        plan.paths.push_back(names);
        plan.capacities.push_back(0);
    }
    return plan;
}

class tree : public one_limiter<tree, weir::detail::core<weir::detail::tree_room, host>> {
public:
    using room = weir::detail::tree_room;
    using operation_type = weir::detail::keyed_operation;
    using options_type = tree_plan;
    using core = weir::detail::core<room, host>;

    static constexpr int cores(options_type const&) noexcept { return 1; }
    static constexpr int keys = 1;
    [[nodiscard]] static int core_of(int) noexcept { return 0; }
    [[nodiscard]] static std::tuple<weir::detail::tree_lookup> who(int key) noexcept {
        return {weir::detail::tree_lookup{current_->paths_[static_cast<std::size_t>(key)]}};
    }

    tree(simulation& world, options_type const& plan, std::vector<std::shared_ptr<core>> const& all)
        : one_limiter(all),
          world_(world),
          plan_(plan),
          oracle_(world, plan.at_first, plan.paths, room::help_budget) {
        current_ = this;
        world_.say("{}", to_string(plan_.at_first));
        for (auto const& names : plan_.paths) {
            world_.say("key {}: /{}", paths_.size(), fmt::join(names, "/"));
            paths_.emplace_back(names);
        }
    }

    [[nodiscard]] weir::rate_tree_options const& options_of_core(int) const noexcept {
        return plan_.at_first;
    }
    void made(core& c, station const&) noexcept { core_ = &c; }
    void configure(core& c, action const&) {
        tell(c, [&](room& r, time_point now) {
            auto const& next = plan_.changes[std::min(changed_++, plan_.changes.size() - 1)];
            world_.say("  now: {}", to_string(next));
            r.configure(next, now);
            oracle_.configured(next, now);
        });
    }
    static void cancel_key(core& c, int key) {
        tell(c, [&](room& r, time_point now) { r.cancel_leaf(std::get<0>(who(key)), now); });
    }
    static void look(core& c) { static_cast<void>(c.stats()); }

    static void comes_home(call& c, permit const& p, bool) {
        c.n = p.count();
        c.taken = p.id();
    }
    permit enter_at_once(call& c, action const& a, error_code& ec) {
        return checked(c, one_limiter::enter_at_once(c, a, ec));
    }
    permit try_enter(call& c, action const& a, error_code& ec) {
        return checked(c, one_limiter::try_enter(c, a, ec));
    }
    permit charge(call& c, action const& a) { return checked(c, one_limiter::charge(c, a)); }
    void completed(request& r, error_code ec, permit const& granted, weir::overdue const& found) {
        check_ticket(granted, oracle_.ticket_of(r));
        one_limiter::completed(r, ec, granted, found);
    }

    [[nodiscard]] oracle& judge_of(request::wish, int) const noexcept { return world_.judge; }
    void section_begins(call& c, int) { oracle_.section_begins(c); }
    void section_ends(call& c, int) {
        core_->within(nullptr, [&](room const& r, time_point last_read) {
            oracle_.section_ends(c, r.stats(last_read), last_read);
        });
    }
    [[nodiscard]] time_point next_event(time_point now) { return oracle_.next_event(now); }
    static void holds(seat const&) noexcept {}
    using one_limiter::quiet;
    void quiet(core* c, station const&, oracle::quiet_view seen) {
        if (c) {
            seen.stats = c->stats();
            seen.waits = c->ask([](auto const& r, time_point) { return r.waits(); });
        }
        oracle_.quiet(seen);
    }
    void finished() const { oracle_.finished(); }
    [[nodiscard]] weir::limiter_stats const& counted() const noexcept { return oracle_.counted(); }

private:
    static void check_ticket(permit const& p, weir::ticket expected) {
        if (p.count() != 0 && p.id() != expected)
            violated(invariant::conserved,
                     fmt::format("permits were lent {} levels above their leaf "
                                 "instead of {}",
                                 p.id(), expected));
    }
    static permit checked(call const& c, permit p) {
        check_ticket(p, c.taken);
        return p;
    }
    template <class F>
    static void tell(core& c, F f) {
        c.modify_at(host::now(), [&](room& r, time_point now) {
            simulation::unfailing const ours;
            f(r, now);
        });
    }

    simulation& world_;
    tree_plan const& plan_;
    std::vector<weir::tree_path> paths_;
    tree_oracle oracle_;
    std::size_t changed_ = 0;
    core* core_ = nullptr;
    static inline tree const* current_ = nullptr;
};

}  // namespace

// In every second scenario the callers first use up the permits, so that many requests wait.
static void use_up(scenario& s, tree_plan const& plan, support::random_source& random) {
    for (auto& script : s.callers) {
        action first;
        first.what = action::kind::enter;
        first.tries_first = random.one_in(4);
        for (auto left = random.between(1, 3); left != 0; --left) {
            first.key = static_cast<int>(random.index_in(plan.capacities));
            first.n = plan.capacities[static_cast<std::size_t>(first.key)];
            if (first.n != 0)
                script.insert(script.begin(), first);
        }
    }
}

scenario for_this_world(scenario s) {
    auto const plan = plan_of(s);
    s = with_pauses(with_keys(std::move(s), static_cast<int>(plan.capacities.size())));
    s.queueing.order = weir::queue_order::fifo;
    support::random_source random(mix(s.failure_seed, 43));
    auto const busy = random.index_in(plan.capacities);  // many requests are for this leaf
    auto const longer = random.between(1, 5);  // the periods of the trees are longer than others
    for (auto& script : s.callers) {
        for (auto& a : script) {
            a.how = {};
            if (a.what == action::kind::drain)
                a.what = action::kind::look;
            if (random.one_in(3))
                a.key = static_cast<int>(busy);
            auto const leaf = std::min(static_cast<std::size_t>(a.key), plan.leaves - 1);
            if (!random.one_in(8))
                a.key = static_cast<int>(leaf);
            bool const asks = a.what == action::kind::enter || a.what == action::kind::try_enter ||
                              a.what == action::kind::charge;
            if (asks && a.n != 0 && !random.one_in(8))
                a.n = random.between(1, random.one_in(2) ? 1 : plan.capacities[leaf]);
            if (a.time > duration(0) && a.time < duration(100))
                a.time *= longer;
        }
    }
    if (random.one_in(2))
        use_up(s, plan, random);
    return s;
}

outcomes run(scenario const& s, chooser& choices, grain how_fine, bool aloud) {
    if (s.which != policy::token_bucket)
        violated(invariant::crash, "trees are explored as token_bucket");
    return world<tree>(plan_of(s), s, choices, how_fine, aloud).play();
}

}  // namespace explorer
