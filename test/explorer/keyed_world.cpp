#include <weir/detail/keyed/room.hpp>

#include "key_oracles.hpp"
#include "one_limiter.hpp"
#include "overheard.hpp"
#include "world.hpp"
#include "world_of.hpp"

#include <cstdint>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace explorer {

scenario for_this_world(scenario s) {
    return with_keys(with_pauses(without_groups(with_ranges(with_places(std::move(s))))),
                     key_oracles::keys);
}

namespace {

/// A rule that forwards its calls for a key to the oracle of that key. The state learns its key from the first call,
/// which must be one for that key.
template <class Rule>
class heard_rule : public Rule {
public:
    struct state_type : Rule::state_type {
        mutable int key = call::every_key;
    };
    using Rule::Rule;

    [[nodiscard]] state_type begin(time_point now) const { return {Rule::begin(now)}; }
    void restart(state_type& s, time_point now) const noexcept
        requires(!std::is_trivially_copyable_v<state_type>)
    {
        Rule::restart(s, now);
    }
    void take_over(state_type& s, heard_rule const& old, state_type& before, time_point now) const {
        Rule::take_over(s, old, before, now);
        s.key = before.key;
    }

    [[nodiscard]] time_point ready_at(state_type const& s, amount n, amount ahead,
                                      time_point now) const noexcept {
        if (!simulation::current().is_quiet())  // statistics also ask for keys without a call
            static_cast<void>(key_of(s));
        return Rule::ready_at(s, n, ahead, now);
    }
    ticket take(state_type& s, amount n, time_point now) const {
        auto const t = Rule::take(s, n, now);
        simulation::unfailing const ours;
        auto const k = key_of(s);
        simulation::current().say("  key {}: takes {}", k, n);
        oracles().of(k).took(oracles().calling(k), n, t, checked(now));
        return t;
    }
    bool leave(state_type& s, amount n, ticket t) const noexcept
        requires requires(Rule const& r) { r.leave(s, n, t); }
    {
        hear_leave(s, n, t);
        return Rule::leave(s, n, t);
    }
    bool leave(state_type& s, amount n, ticket t, time_point now) const noexcept
        requires requires(Rule const& r) { r.leave(s, n, t, now); }
    {
        hear_leave(s, n, t);
        static_cast<void>(checked(now));
        return Rule::leave(s, n, t, now);
    }
    bool refund(state_type& s, amount n, ticket t, time_point now) const noexcept {
        simulation::unfailing const ours;
        auto const k = key_of(s);
        simulation::current().say("  key {}: refunds {}", k, n);
        oracles().of(k).refunded(oracles().calling(k), n, t, checked(now));
        return Rule::refund(s, n, t, now);
    }
    ticket merge(state_type& s, ticket a, ticket b, amount n) const noexcept {
        auto const both = Rule::merge(s, a, b, n);
        simulation::unfailing const ours;
        oracles().of(key_of(s)).merged(a, b, both, n);
        return both;
    }

private:
    static void hear_leave(state_type& s, amount n, ticket t) {
        simulation::unfailing const ours;
        auto const k = key_of(s);
        simulation::current().say("  key {}: releases {}", k, n);
        oracles().of(k).came_home(oracles().calling(k), n, t, oracles().now());
    }
    static key_oracles& oracles() { return key_oracles::current(); }
    static int key_of(state_type const& s) {
        if (s.key == call::every_key)
            s.key = oracles().key_called();
        return s.key;
    }
    time_point checked(time_point now) const {
        auto const truth = oracles().now();
        if (this->timed() && now != truth)
            violated(invariant::verdict, "the rule receives a wrong time");
        return truth;
    }
};

struct hash_of_key {
    [[nodiscard]] std::uint64_t operator()(weir::hash_seed const&, int key) const noexcept {
        return mix(static_cast<std::uint64_t>(key), 1);
    }
};

/// A limiter with three keys in two cores.
template <class Policy>
class keyed
    : public one_limiter<
          keyed<Policy>,
          weir::detail::core<weir::detail::keyed_room<int, hash_of_key,
                                                      heard_rule<weir::policy::rule_of_t<Policy>>>,
                             host>> {
public:
    using rule_type = heard_rule<weir::policy::rule_of_t<Policy>>;
    using room = weir::detail::keyed_room<int, hash_of_key, rule_type>;
    using operation_type = weir::detail::keyed_operation;
    using options_type = typename Policy::options_type;
    using core = weir::detail::core<room, host>;
    using lookup = weir::detail::keyed_lookup<int>;

    static constexpr int cores(options_type const&) noexcept { return key_oracles::cores; }
    static constexpr int keys = key_oracles::keys;
    [[nodiscard]] static int core_of(int key) noexcept { return key_oracles::core_of(key); }
    [[nodiscard]] static lookup look_up(int key) noexcept { return {key, hash_of_key()({}, key)}; }
    [[nodiscard]] static std::tuple<lookup> who(int key) noexcept { return {look_up(key)}; }

    keyed(simulation& world, options_type const& options,
          std::vector<std::shared_ptr<core>> const& all)
        : keyed::one_limiter(all),
          options_(options),
          oracles_(world, !weir::ignores_leave<rule_type>(), room::help_budget / 2),
          bounds_(std::make_shared<weir::detail::keyed_bounds<hash_of_key>>(
              hash_of_key(), weir::hash_seed(), 100)) {
        follow(world.what.at_first, options_);
    }

    [[nodiscard]] typename room::options_type options_of_core(int) const {
        return {.rule = std::make_shared<rule_type const>(options_), .bounds = bounds_};
    }
    // Does the same as `basic_keyed`.
    void configure(core& c, action const& a) {
        auto options = options_;
        follow(a.change, options);
        std::shared_ptr<rule_type const> next;
        if (a.of_all || !a.resets)
            next = std::make_shared<rule_type const>(options);
        if (!a.of_all)
            return tell(c, [&](room& r, time_point now) {
                oracles_.changes_rules();
                if (!r.configure(look_up(a.key), std::move(next), now))
                    violated(invariant::verdict, "there is no space for a key");
            });
        std::uint64_t page = 0;
        std::uint64_t number = 0;
        do {
            tell(c, [&](room& r, time_point now) {
                if (page == 0) {
                    oracles_.changes_rules();
                    number = ++changes_;
                }
                page = r.configure({next, number}, page, now);
            });
        } while (page != 0);
    }
    static void cancel_key(core& c, int key) {
        tell(c, [&](room& r, time_point now) { r.cancel_key(look_up(key), now); });
    }
    static void look(core& c) { static_cast<void>(c.stats()); }

    [[nodiscard]] oracle& judge_of(request::wish wants, int key) {
        return oracles_.judge_of(wants, key);
    }
    void section_begins(call& c, int) { oracles_.section_begins(c); }
    void section_ends(call& c, int) { oracles_.section_ends(c); }
    [[nodiscard]] time_point next_event(time_point now) const { return oracles_.next_event(now); }
    static void holds(seat const&) {}
    using keyed::one_limiter::quiet;
    void quiet(core* c, station const& at, oracle::quiet_view seen) {
        if (c) {
            seen.stats = c->stats();
            seen.waits = c->ask([](auto const& r, time_point) { return r.waits(); });
        }
        oracles_.quiet(at, seen, [&](int key) {
            return c->ask([&](room const& r, time_point now) {
                if (rule_of(r.options(look_up(key))) != oracles_.of(key).in_force())
                    violated(invariant::verdict, "a key has wrong options");
                return r.stats(look_up(key), now);
            });
        });
    }
    void finished() const { oracles_.finished(); }
    [[nodiscard]] weir::limiter_stats const& counted() { return oracles_.counted(); }

private:
    template <class F>
    static void tell(core& c, F f) {
        auto const read = host::now();
        c.modify_at(read, [&](room& r, time_point now) {
            simulation::unfailing const ours;
            key_oracles::current().tells_time(read, now);
            f(r, now);
        });
    }

    options_type options_;
    key_oracles oracles_;
    std::uint64_t changes_ = 0;  // of the options of all keys
    std::shared_ptr<weir::detail::keyed_bounds<hash_of_key>> bounds_;
};

}  // namespace

outcomes run(scenario const& s, chooser& choices, grain how_fine, bool aloud) {
    switch (s.which) {
        case policy::seats:
            return world<keyed<weir::policy::seats>>({}, s, choices, how_fine, aloud).play();
        case policy::resting_seats:
            return world<keyed<weir::policy::resting_seats>>({}, s, choices, how_fine, aloud)
                .play();
        case policy::sliding_log:
            return world<keyed<weir::policy::sliding_log>>({}, s, choices, how_fine, aloud).play();
        case policy::token_bucket:
            return world<keyed<weir::policy::token_bucket>>({}, s, choices, how_fine, aloud).play();
        default:
            violated(invariant::crash, "keys are not explored with this policy");
    }
}

}  // namespace explorer
