#include <weir/chain_permit.hpp>
#include <weir/detail/chain/link.hpp>
#include <weir/detail/chain/operation.hpp>
#include <weir/detail/chain/protocol.hpp>
#include <weir/detail/keyed_room.hpp>
#include <weir/detail/waiting_room.hpp>

#include "chain_oracle.hpp"
#include "overheard.hpp"
#include "world.hpp"
#include "world_of.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

// Chains of three limiters, in every order, and plain callers of each of them. The last limiter lives in a context of its
// own.

namespace explorer {
namespace {

// All chains of one, two or three different limiters.
std::vector<std::vector<int>> const& chains() {
    static auto const all = [] {
        std::vector<std::vector<int>> found;
        for (int a = 0; a != chained_limiters; ++a) {
            found.push_back({a});
            for (int b = 0; b != chained_limiters; ++b) {
                if (b == a)
                    continue;
                found.push_back({a, b});
                found.push_back({a, b, chained_limiters - a - b});
            }
        }
        return found;
    }();
    return all;
}

/// What is granted of one limiter, or of several.
struct turn {
    std::vector<int> of;  // limiters, in the order of the permits
    permit alone = {};
    weir::chain_permit<chained_limiters> all = {};

    explicit operator bool() const noexcept { return alone || all; }
    void leave() noexcept {
        alone.leave();
        all.leave();
    }
    void refund() noexcept {
        alone.refund();
        all.refund();
    }
};

/// A policy whose grants can be told apart.
template <class Policy>
class numbered : public Policy {
public:
    using options_type = typename Policy::options_type;
    using Policy::Policy;

    void take_over(numbered& before, time_point now) {
        Policy::take_over(before, now);
        simulation::unfailing const ours;
        auto const core = simulation::current().calling().core;
        chain_oracle::current().configured(core, rule_of(this->options()), now);
    }
    ticket take(amount n, time_point now) {
        auto const t = Policy::take(n, now);
        simulation::unfailing const ours;
        return chain_oracle::current().took(t, n, now);
    }
    bool leave(amount n, ticket t, time_point now) noexcept {
        return weir::leave<Policy>(*this, n, chain_oracle::current().inner(t), now);
    }
    [[nodiscard]] bool times_leave() const noexcept { return weir::times_leave<Policy>(*this); }
    bool refund(amount n, ticket t, time_point now) noexcept {
        return Policy::refund(n, chain_oracle::current().inner(t), now);
    }
};

/// The same of a rule.
template <class Rule>
class numbered_rule : public Rule {
public:
    using state_type = typename Rule::state_type;
    using Rule::Rule;

    ticket take(state_type& s, amount n, time_point now) const {
        auto const t = Rule::take(s, n, now);
        simulation::unfailing const ours;
        return chain_oracle::current().took(t, n, now);
    }
    bool leave(state_type& s, amount n, ticket t) const noexcept {
        return Rule::leave(s, n, chain_oracle::current().inner(t));
    }
    bool refund(state_type& s, amount n, ticket t, time_point now) const noexcept {
        return Rule::refund(s, n, chain_oracle::current().inner(t), now);
    }
};

template <class Options>
Options options_of(chain_oracle::limiter_kind const& l, rule const& r) {
    if constexpr (std::same_as<Options, weir::limiter_config>) {
        if (l.which == policy::sliding_log)
            return options_of<weir::sliding_log_options>(l, r);
        if (l.which == policy::token_bucket)
            return options_of<weir::token_bucket_options>(l, r);
        auto const seats = options_of<weir::seats_options>(l, r);
        if (!l.with_a_log)
            return seats;
        weir::sliding_log_options const log{.limit = r.limit, .window = window_of_a_log};
        return weir::all_options{{seats, log}};
    } else {
        Options options;
        follow(r, options);
        return options;
    }
}

// Each limiter has a core of its own.
template <class Policy>
struct without_keys {
    using room = weir::detail::waiting_room<numbered<Policy>>;
    using operation_type = weir::detail::operation;
    using core = weir::detail::core<room, host>;
    using who_type = weir::detail::anybody;

    static constexpr int cores = chained_limiters;
    [[nodiscard]] static int core_of(int limiter) noexcept { return limiter; }
    [[nodiscard]] static who_type who(int) noexcept { return {}; }

    [[nodiscard]] static typename Policy::options_type options_of_core(
        chain_oracle::limiter_kind const& l) {
        return options_of<typename Policy::options_type>(l, l.in_force);
    }
    static void configure(core& c, int, chain_oracle::limiter_kind const& l, rule const& change) {
        c.configure([&](auto& options) {
            options = options_of<typename Policy::options_type>(l, change);
        });
    }
    static void cancel(core& c, int) {
        simulation::current().calling().key = call::every_key;
        c.cancel();
    }
    [[nodiscard]] static weir::limiter_stats stats(room const& r, int, time_point now) {
        return r.stats(now);
    }
};

struct hash_of_key {
    [[nodiscard]] std::uint64_t operator()(weir::hash_seed const&, int key) const noexcept {
        return mix(static_cast<std::uint64_t>(key), 1);
    }
};

// Each limiter is a key; the first two are in one core.
template <class Policy>
struct with_keys_of {
    using rule_type = numbered_rule<weir::policy::rule_of_t<Policy>>;
    using room = weir::detail::keyed_room<int, hash_of_key, rule_type>;
    using operation_type = weir::detail::keyed_operation;
    using core = weir::detail::core<room, host>;
    using options_type = typename Policy::options_type;
    using lookup = weir::detail::keyed_lookup<int>;

    struct who_type {
        template <class F>
        auto with(F f) const {
            return f(look_up(key));
        }
        friend bool operator==(who_type, who_type) = default;
        int key;
    };

    static constexpr int cores = 2;
    [[nodiscard]] static int core_of(int limiter) noexcept { return limiter / 2; }
    [[nodiscard]] static who_type who(int limiter) noexcept { return {limiter}; }
    [[nodiscard]] static lookup look_up(int key) noexcept { return {key, hash_of_key()({}, key)}; }

    [[nodiscard]] static typename room::options_type options_of_core(
        chain_oracle::limiter_kind const& l) {
        return {.rule = rule_for(l, l.in_force),
                .bounds = std::make_shared<weir::detail::keyed_bounds<hash_of_key>>(
                    hash_of_key(), weir::hash_seed(), 100)};
    }
    static void configure(core& c, int limiter, chain_oracle::limiter_kind const& l,
                          rule const& change) {
        auto const next = rule_for(l, change);
        tell(c, [&](room& r, time_point now) {
            chain_oracle::current().configured(limiter, change, now);
            if (!r.configure(look_up(limiter), next, now))
                violated(invariant::verdict, "there is no place for a key");
        });
    }
    static void cancel(core& c, int limiter) {
        simulation::current().calling().key = limiter;
        tell(c, [&](room& r, time_point now) { r.cancel(look_up(limiter), now); });
    }
    [[nodiscard]] static weir::limiter_stats stats(room const& r, int limiter, time_point now) {
        return r.stats(look_up(limiter), now);
    }

private:
    static std::shared_ptr<rule_type const> rule_for(chain_oracle::limiter_kind const& l,
                                                     rule const& r) {
        return std::make_shared<rule_type const>(options_of<options_type>(l, r));
    }
    template <class F>
    static void tell(core& c, F f) {
        c.tell_at(host::now(), [&](room& r, time_point now) {
            simulation::unfailing const ours;
            simulation::current().calling().told = now;
            f(r, now);
        });
    }
};

/// Three limiters.
template <class Kind>
class chained {
public:
    using room = typename Kind::room;
    using core = typename Kind::core;
    using permit_type = turn;
    using operation_type = typename Kind::operation_type;
    using options_type = int;

private:
    using link = weir::detail::chain_link<core, int, typename Kind::who_type>;

    // What a chain asks for.
    class wishes {
    public:
        void name(chained& all, action const& a) {
            auto const& named = chains()[static_cast<std::size_t>(a.key)];
            auto const counts = counts_of(a);
            std::vector<weir::detail::chain_member*> members;
            for (auto const i : named) {
                links_.emplace_back(
                    weir::detail::limiter_handle<core, int>{all.core_at(Kind::core_of(i)), 0},
                    counts[static_cast<std::size_t>(i)], Kind::who(i));
            }
            for (auto& one : links_)
                members.push_back(&one);
            used = fill(places_, members);
        }
        /// It is over: lets go of the limiters.
        void forget() { links_.clear(); }

        std::span<weir::detail::chain_entry> used;

    private:
        std::vector<link> links_;
        std::array<weir::detail::chain_entry, chained_limiters> places_;
    };

public:
    class chain_type : public weir::detail::chain_operation {
    public:
        void begin(chained& all, action const& a) {
            wishes_.name(all, a);
            entries = wishes_.used;
            for (auto& e : entries)
                e.op = this;
            at_home = &*std::ranges::min_element(entries, {}, &weir::detail::chain_entry::index);
            options = options_of_chain(a);
        }

        void forget() { wishes_.forget(); }

    private:
        wishes wishes_;
    };

    static constexpr int cores = Kind::cores;
    static constexpr int keys = 15;

    chained(simulation& world, options_type, std::vector<std::shared_ptr<core>> const& all)
        : world_(world),
          cores_(all),
          limiters_(limiters_of(world.what)),
          oracle_(world, limiters_) {
        world_.stations.back().where = &world_.elsewhere;
    }

    [[nodiscard]] static int core_of(int key) {
        return Kind::core_of(chains()[static_cast<std::size_t>(key)].front());
    }
    [[nodiscard]] static std::vector<int> cores_of(int key) {
        std::vector<int> all;
        for (auto const i : chains()[static_cast<std::size_t>(key)])
            all.push_back(Kind::core_of(i));
        return all;
    }
    [[nodiscard]] static bool is_chain(action const& a) {
        return a.posts || chains()[static_cast<std::size_t>(a.key)].size() > 1;
    }
    [[nodiscard]] static bool concerns(action const& a, int number) {
        return a.of_all || core_of(a.key) == number;
    }

    [[nodiscard]] auto options_of_core(int number) const {
        auto const it = std::ranges::find(limiters_, number, &chain_oracle::limiter_kind::core);
        return Kind::options_of_core(*it);
    }
    void made(core& c, station const& at) { known_[static_cast<std::size_t>(at.number)] = &c; }
    void configure(core& c, action const& a) {
        for (int i = 0; i != chained_limiters; ++i) {
            auto const& l = limiters_[static_cast<std::size_t>(i)];
            bool const is_meant =
                a.of_all || chains()[static_cast<std::size_t>(a.key)].front() == i;
            if (known_[static_cast<std::size_t>(l.core)] == &c && is_meant)
                Kind::configure(c, i, l, rule_for(l, a.change));
        }
    }
    static void cancel_key(core& c, int key) {
        Kind::cancel(c, chains()[static_cast<std::size_t>(key)].front());
    }
    static void look(core& c) { static_cast<void>(c.stats()); }

    // Requests.

    request& asks(int caller, request::wish wants, action const& a) {
        if (wants == request::wish::idleness)
            return oracle_.asks_to_drain(caller);
        return asks(caller, visit::way::enters, a);
    }
    static void entering(call&, request&) noexcept {}
    bool enter(chain_type& op, action const& a, weir::detail::wait_limit const& limit) {
        op.begin(*this, a);
        return enter_chain(op, limit);
    }
    bool enter(operation_type& op, action const& a, weir::detail::wait_limit const& limit) {
        return with_core(a,
                         [&](core& c, auto const&... who) { return c.enter(op, limit, who...); });
    }
    static void began(request& r, bool waits) {
        if (r.wants == request::wish::permits)
            static_cast<visit&>(r).waits = waits;
    }

    turn enter_at_once(call& c, action const& a, error_code& ec) {
        auto& v = begin_call(c, visit::way::tries_first, a);
        turn granted{.of = v.named};
        if (is_chain(a)) {
            wishes all;
            all.name(*this, a);
            decide(granted, weir::detail::enter_chain_at_once(all.used), all.used, ec);
        } else {
            granted.alone = with_core(a, [&](core& one, auto const&... who) {
                return one.enter_at_once({a.n, a.how}, ec, who...);
            });
        }
        if (granted || ec)
            tell(v, ec, granted);
        return granted;
    }
    turn try_enter(call& c, action const& a, error_code& ec) {
        auto& v = begin_call(c, visit::way::tries, a);
        turn granted{.of = v.named};
        if (is_chain(a)) {
            wishes all;
            all.name(*this, a);
            decide(granted, try_chain(all.used), all.used, ec);
        } else {
            granted.alone = with_core(a, [&](core& one, auto const&... who) {
                return one.try_enter({a.n, a.how}, ec, who...);
            });
        }
        tell(v, ec, granted);
        return granted;
    }
    turn charge(call& c, action const& a) {
        auto& v = begin_call(c, visit::way::charges, a);
        turn granted{.of = v.named};
        granted.alone =
            with_core(a, [&](core& one, auto const&... who) { return one.charge(a.n, who...); });
        tell(v, granted ? error_code() : error_code(weir::errc::closed), granted);
        return granted;
    }

    static void comes_home(call& c, turn const& t, bool used) {
        simulation::unfailing const ours;
        if (t.alone)
            c.home_of_each.push_back({t.of.front(), t.alone.count(), t.alone.id(), used});
        for (std::size_t i = 0; i != chained_limiters; ++i) {
            if (t.all[i])
                c.home_of_each.push_back({t.of[i], t.all[i].count(), t.all[i].id(), used});
        }
    }
    static void leave_part(turn& t, action const& a) {
        auto const leave = [](permit& p, int limiter) {
            simulation::calls c(call::kind::leave, Kind::core_of(limiter));
            c.home_of_each.push_back({limiter, p.count(), p.id(), true});
            p.leave();
        };
        auto const i = static_cast<std::size_t>(a.n) % t.of.size();
        if (t.alone)
            leave(t.alone, t.of.front());
        else if (t.all[i])
            leave(t.all[i], t.of[i]);
    }

    void completed(request& r, error_code ec, turn const& granted, weir::overdue const&) {
        if (r.wants == request::wish::permits)
            tell(static_cast<visit&>(r), ec, granted);
        else
            oracle_.told(r, ec);
    }
    void destroyed(request& r, error_code ec, turn const& granted) {
        r.doomed = true;
        completed(r, ec, granted, {});
    }
    void throws(request& r) {
        if (r.wants == request::wish::permits && static_cast<visit&>(r).is_chain)
            static_cast<chain_type*>(r.op)->forget();
        oracle_.throws(r);
    }

    // What is seen.

    void section_begins(call& c, int number) { oracle_.section_begins(c, number); }
    void section_ends(call& c, int number) {
        auto const now = c.told.value_or(world_.threads.now());
        auto& ended = *known_[static_cast<std::size_t>(number)];
        ended.within(false, [&](room const& r, time_point) {
            of_each_limiter<weir::limiter_stats> each;
            for (int i = 0; i != chained_limiters; ++i) {
                if (Kind::core_of(i) == number)
                    each[static_cast<std::size_t>(i)] = Kind::stats(r, i, now);
            }
            oracle_.section_ends(c, number, r.stats(now), each);
        });
    }
    [[nodiscard]] time_point next_event(time_point now) const { return oracle_.next_event(now); }
    static void holds(seat_of<turn> const&) noexcept {}
    void quiet(core* c, station const& at, oracle::quiet_view seen) {
        if (c)
            seen.waits = c->ask([](auto const& r, time_point) { return r.waits(); });
        oracle_.quiet_core(at.number, seen);
    }
    void quiet(time_point now) { oracle_.quiet(now); }
    void home_has_ended() const { oracle_.home_has_ended(); }
    void finished() const { oracle_.finished(); }
    [[nodiscard]] weir::limiter_stats const& counted() const noexcept { return oracle_.counted(); }

private:
    // Of each limiter that the action names: as much, or one, or nothing beside the first.
    static of_each_limiter<amount> counts_of(action const& a) {
        of_each_limiter<amount> counts{};
        auto const& named = chains()[static_cast<std::size_t>(a.key)];
        for (auto const i : named) {
            bool const is_first = i == named.front();
            counts[static_cast<std::size_t>(i)] = is_first || a.of_all ? a.n : a.resets ? 0 : 1;
        }
        return counts;
    }
    static weir::chain_options options_of_chain(action const& a) {
        return {.passes = 1 + static_cast<int>(a.lives), .reserve_for = duration(10)};
    }
    // One kind, or with `any` each of its own.
    static of_each_limiter<chain_oracle::limiter_kind> limiters_of(scenario const& s) {
        of_each_limiter<chain_oracle::limiter_kind> all;
        for (int i = 0; i != chained_limiters; ++i) {
            auto& l = all[static_cast<std::size_t>(i)];
            l.core = Kind::core_of(i);
            l.which = s.which;
            if (s.in_any) {
                auto const kind = mix(s.failure_seed, 20 + static_cast<std::uint64_t>(i)) % 4;
                l.which = kind == 0   ? policy::sliding_log
                          : kind == 1 ? policy::token_bucket
                                      : policy::seats;
                l.with_a_log = kind == 2;
            }
            l.in_force = rule_for(l, s.at_first);
        }
        return all;
    }
    static rule rule_for(chain_oracle::limiter_kind const& l, rule r) {
        if (l.which == policy::seats)
            r.time = weir::forever;
        else if (r.time == weir::forever)
            r.time = duration(3);
        return r;
    }

    [[nodiscard]] std::shared_ptr<core> const& core_at(int number) const {
        return cores_[static_cast<std::size_t>(number)];
    }
    template <class F>
    auto with_core(action const& a, F f) {
        return Kind::who(chains()[static_cast<std::size_t>(a.key)].front())
            .with([&](auto const&... who) { return f(*core_at(core_of(a.key)), who...); });
    }

    visit& asks(int caller, visit::way by, action const& a) {
        auto named = chains()[static_cast<std::size_t>(a.key)];
        auto counts = counts_of(a);
        if (by == visit::way::charges)
            named.resize(1);
        if (by == visit::way::charges || !is_chain(a)) {
            auto const first = static_cast<std::size_t>(named.front());
            counts = {};
            counts[first] = a.n;
        }
        auto& v = oracle_.asks(caller, by, a, std::move(named), counts);
        v.is_chain = by != visit::way::charges && is_chain(a);
        v.options = options_of_chain(a);
        v.lives_elsewhere = a.lives == action::abode::elsewhere;
        return v;
    }
    visit& begin_call(call& c, visit::way by, action const& a) {
        simulation::unfailing const ours;
        auto& v = asks(0, by, a);
        c.who = &v;
        return v;
    }
    static void decide(turn& t, weir::detail::chain_answer const& answer,
                       std::span<weir::detail::chain_entry> entries, error_code& ec) {
        ec = answer.error;
        t.all = answer.granted ? weir::chain_permit<chained_limiters>(entries, chained_limiters)
                               : weir::chain_permit<chained_limiters>(answer.refused);
    }

    void tell(visit& v, error_code ec, turn const& t) {
        simulation::unfailing const ours;
        if (static_cast<bool>(t) != (!ec && !(v.doomed && !t)))
            violated(invariant::conserved, "an error, and permits");
        for (std::size_t i = 0; i != v.named.size(); ++i) {
            auto const& p = v.is_chain ? t.all[i] : t.alone;
            auto const at = static_cast<std::size_t>(v.named[i]);
            if (t && (!p || p.count() != v.asks_of[at]))
                violated(invariant::conserved, "granted something other than was asked for");
            if (!t)
                break;
            v.tickets[at] = p.count() == 0 ? ticket() : p.id();
            v.waited[at] = p.waited();
        }
        if (ec && v.is_chain) {
            v.retry_after = t.all.retry_after();
            if (auto const by = t.all.refused_by())
                v.refused_by = v.named[*by];
        } else if (ec) {
            v.retry_after = t.alone.retry_after();
            if (ec != boost::asio::error::operation_aborted)
                v.refused_by = v.named.front();
        }
        world_.say("caller {}: {}", v.caller, ec ? ec.message() : t ? "granted" : "destroyed");
        oracle_.told(v, ec);
    }

    simulation& world_;
    std::vector<std::shared_ptr<core>> const& cores_;
    of_each_limiter<chain_oracle::limiter_kind> limiters_;
    chain_oracle oracle_;
    std::array<core*, chained_limiters> known_{};
};

}  // namespace

template <>
struct outcome_of<turn> {
    template <class Operation>
    static turn take(Operation& op) {
        turn result;
        if (op.asked().wants != request::wish::permits)
            return result;
        result.of = static_cast<visit&>(op.asked()).named;
        if constexpr (requires { op.entries; }) {
            result.all =
                op.error ? weir::chain_permit<chained_limiters>(op.refused)
                         : weir::chain_permit<chained_limiters>(op.entries, chained_limiters);
            op.forget();
        } else {
            result.alone = std::move(op.granted);
        }
        return result;
    }
};

int const keys_of_limiter = static_cast<int>(chains().size());
bool const has_chains = true;

// Every fourth time the limiters are keys.
weir::limiter_stats run(scenario const& s, chooser& choices, grain how_fine, bool aloud) {
    bool const keyed = mix(s.failure_seed, 30) % 4 == 0;
    auto const play = [&]<class Kind>(std::type_identity<Kind>) {
        return world<chained<Kind>>(0, s, choices, how_fine, aloud).play();
    };
    auto const play_either = [&]<class Policy>(std::type_identity<Policy>) {
        return keyed ? play(std::type_identity<with_keys_of<Policy>>())
                     : play(std::type_identity<without_keys<Policy>>());
    };
#ifdef WEIR_EXPLORE_ONLY
    return play_either(std::type_identity<weir::policy::WEIR_EXPLORE_ONLY>());
#else
    if (s.in_any)
        return play(std::type_identity<without_keys<weir::policy::any>>());
    switch (s.which) {
        case policy::seats:
            return play_either(std::type_identity<weir::policy::seats>());
        case policy::sliding_log:
            return play_either(std::type_identity<weir::policy::sliding_log>());
        case policy::token_bucket:
            return play_either(std::type_identity<weir::policy::token_bucket>());
        default:
            violated(invariant::crash, "chains are not explored with this policy");
    }
#endif
}

}  // namespace explorer
