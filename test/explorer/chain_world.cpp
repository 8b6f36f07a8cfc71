#include <weir/chain_permit.hpp>
#include <weir/detail/chain/link.hpp>
#include <weir/detail/chain/operation.hpp>
#include <weir/detail/chain/protocol.hpp>
#include <weir/detail/chain/start.hpp>
#include <weir/detail/keyed/room.hpp>
#include <weir/detail/room.hpp>

#include "chain_oracle.hpp"
#include "either_core.hpp"
#include "joint_ledger.hpp"
#include "overheard.hpp"
#include "world.hpp"
#include "world_of.hpp"

#include <boost/asio/error.hpp>
#include <boost/container/static_vector.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

// Chains of three limiters, in every order, and plain callers of each of them. The limiters are plain ones, keys, or
// both. The last core uses a separate context.

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

std::vector<int> const& named_by(int key) {
    return chains()[static_cast<std::size_t>(key)];
}

int key_of_one(int limiter) {
    return static_cast<int>(std::ranges::find(chains(), std::vector{limiter}) - chains().begin());
}

/// The permits that one limiter or several grant.
struct turn {
    visit const* whose = nullptr;
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

chain_sections& heard() noexcept {
    return chain_oracle::current().sections();
}

/// A policy whose grants can be distinguished.
template <class Policy>
class numbered : public Policy {
public:
    using options_type = typename Policy::options_type;
    using countable_type = numbered;  // the oracle receives counted permits from the lock
    using Policy::Policy;

    void take_over(numbered& before, time_point now) {
        Policy::take_over(before, now);
        simulation::unfailing const ours;
        limiter_ = before.limiter_;
        heard().configured(limiter_, rule_of(this->options()), now);
    }
    ticket take(amount n, time_point now) {
        auto const t = Policy::take(n, now);
        simulation::unfailing const ours;
        if constexpr (weir::countable_policy<numbered>) {
            // Its permits have no number: permits that are taken by counting have none.
            if (auto* const newcomer = heard().newcomer(simulation::current().calling())) {
                heard().took_for(*newcomer, limiter_, n, now);
                return t;
            }
        }
        return heard().took(t, n, now);
    }
    bool leave(amount n, ticket t, time_point now) noexcept {
        return weir::leave<Policy>(*this, n, heard().inner(t), now);
    }
    [[nodiscard]] bool times_leave() const noexcept { return weir::times_leave<Policy>(*this); }
    bool refund(amount n, ticket t, time_point now) noexcept {
        return Policy::refund(n, heard().inner(t), now);
    }
    /// Names the limiter that has this policy.
    void belongs_to(int limiter) noexcept { limiter_ = limiter; }

private:
    int limiter_ = -1;
};

/// A rule whose grants can be distinguished.
template <class Rule>
class numbered_rule : public Rule {
public:
    using state_type = typename Rule::state_type;
    using Rule::Rule;

    ticket take(state_type& s, amount n, time_point now) const {
        auto const t = Rule::take(s, n, now);
        simulation::unfailing const ours;
        return heard().took(t, n, now);
    }
    template <std::same_as<time_point>... Now>
    bool leave(state_type& s, amount n, ticket t, Now... now) const noexcept
        requires requires(Rule const& r) { r.leave(s, n, t, now...); }
    {
        return Rule::leave(s, n, heard().inner(t), now...);
    }
    bool refund(state_type& s, amount n, ticket t, time_point now) const noexcept {
        return Rule::refund(s, n, heard().inner(t), now);
    }
};

template <class Options>
Options options_of(chain_oracle::limiter_kind const& l, rule const& r) {
    if constexpr (std::same_as<Options, weir::limiter_config>) {
        if (l.which == policy::sliding_log)
            return options_of<weir::sliding_log_options>(l, r);
        if (l.which == policy::token_bucket)
            return options_of<weir::token_bucket_options>(l, r);
        if (l.which == policy::resting_seats)
            return options_of<weir::resting_seats_options>(l, r);
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

template <class... F>
struct by_kind : F... {
    using F::operator()...;
};

// The limiters that are keys. Two adjacent keys belong to one core.
enum class layout { no_keys, all_keys, keys_first, keys_last };

int core_of_limiter(layout l, int limiter) {
    return l == layout::no_keys ? limiter : (limiter + (l == layout::keys_last ? 1 : 0)) / 2;
}
bool has_keys(layout l, int core) {
    return l == layout::all_keys || (l == layout::keys_first && core == 0) ||
           (l == layout::keys_last && core == 1);
}

struct hash_of_key {
    [[nodiscard]] std::uint64_t operator()(weir::hash_seed const&, int key) const noexcept {
        return mix(static_cast<std::uint64_t>(key), 1);
    }
};

weir::detail::keyed_lookup<int> look_up(int key) noexcept {
    return {key, hash_of_key()({}, key)};
}

// The key that a chain requests.
struct one_key {
    template <class F>
    auto with(F f) const {
        return f(look_up(key));
    }
    friend bool operator==(one_key, one_key) = default;
    int key;
};

/// Three limiters.
template <class Policy>
class chained {
    using heard_queue = overheard_queue<heard>;
    using rule_type = numbered_rule<weir::policy::rule_of_t<Policy>>;
    using plain_room = weir::detail::room<weir::detail::one_slot<numbered<Policy>, heard_queue>>;
    using keyed_room = weir::detail::keyed_room<int, hash_of_key, rule_type, heard_queue>;

public:
    using core = either_core<plain_room, keyed_room>;
    using permit_type = turn;
    using operation_type = weir::detail::keyed_operation;
    using options_type = layout;

private:
    using plain_core = weir::detail::core<plain_room, counting_host>;
    using keyed_core = weir::detail::core<keyed_room, counting_host>;

    static_assert(weir::countable_policy<numbered<Policy>> == weir::countable_policy<Policy>,
                  "the explorer must count where the limiter does");

    // The request of a chain.
    class wishes {
        using member = weir::detail::chain_member;

    public:
        using permit_type = weir::chain_permit<chained_limiters>;
        static constexpr std::size_t most = chained_limiters;

        wishes() = default;
        wishes(chained& all, action const& a) {
            auto const counts = counts_of(a);
            for (auto const i : named_by(a.key))
                links_.push_back(
                    all.link(i, {counts[static_cast<std::size_t>(i)], all.standing_of(a)}));
        }

        [[nodiscard]] boost::container::static_vector<member*, most> members() const {
            boost::container::static_vector<member*, most> all;
            for (auto const& each : links_)
                all.push_back(each.get());
            return all;
        }

    private:
        std::vector<std::shared_ptr<member>> links_;
    };

public:
    class chain_type : public weir::detail::chain_operation {
    public:
        void begin(chained& all, action const& a) {
            wishes_ = {all, a};
            entries = fill(places_, wishes_.members());
            for (auto& e : entries)
                e.op = this;
            at_home = &*std::ranges::min_element(entries, {}, &weir::detail::chain_entry::index);
            options = options_of_chain(a);
        }

        /// Ends the request: releases the limiters.
        void forget() { wishes_ = {}; }

    private:
        wishes wishes_;
        std::array<weir::detail::chain_entry, chained_limiters> places_;
    };

    static int cores(layout l) { return core_of_limiter(l, chained_limiters - 1) + 1; }
    static constexpr int keys = 15;

    chained(simulation& world, layout l, std::vector<std::shared_ptr<core>> const& all)
        : world_(world),
          layout_(l),
          cores_(all),
          limiters_(limiters_of(world.what, l)),
          oracle_(world, limiters_) {
        world_.stations.back().where = &world_.elsewhere;
        for (auto const& each : limiters_)
            world_.say("limiter {}: {}{} in core {}", &each - limiters_.data(), name_of(each.which),
                       has_keys(layout_, each.core) ? ", a key" : "", each.core);
    }

    [[nodiscard]] int core_of(int key) const {
        return core_of_limiter(layout_, named_by(key).front());
    }
    [[nodiscard]] std::vector<int> cores_of(int key) const {
        std::vector<int> all;
        for (auto const i : named_by(key))
            all.push_back(core_of_limiter(layout_, i));
        return all;
    }
    [[nodiscard]] static bool is_chain(action const& a) {
        return a.posts || named_by(a.key).size() > 1;
    }
    [[nodiscard]] bool concerns(action const& a, int number) const {
        return a.of_all || core_of(a.key) == number;
    }

    [[nodiscard]] typename core::options_type options_of_core(int number) {
        auto const& l = *std::ranges::find(limiters_, number, &chain_oracle::limiter_kind::core);
        auto& self = of_each_core_[static_cast<std::size_t>(number)];
        if (!has_keys(layout_, number))
            return {&self, options_of<typename Policy::options_type>(l, l.in_force)};
        return {&self, typename keyed_room::options_type{
                           .rule = make_rule(l, l.in_force),
                           .bounds = std::make_shared<weir::detail::keyed_bounds<hash_of_key>>(
                               hash_of_key(), weir::hash_seed(), 100)}};
    }
    void made(core& c, station const& at) const {
        c.with(by_kind{[&](plain_core& one) {
                           one.within(nullptr, [&](plain_room& r, time_point) {
                               r.policy().belongs_to(oracle_.limiter_of(at.number));
                           });
                       },
                       [](keyed_core&) {}});
    }
    void configure(core& c, action const& a) {
        for (int i = 0; i != chained_limiters; ++i) {
            auto const& l = limiters_[static_cast<std::size_t>(i)];
            if (core_at(l.core).get() == &c && (a.of_all || named_by(a.key).front() == i))
                change(c, i, l, rule_for(l, a.change));
        }
    }
    static void cancel_key(core& c, int key) {
        auto const limiter = named_by(key).front();
        c.with(by_kind{[](plain_core& one) {
                           simulation::current().calling().key = call::every_key;
                           one.cancel();
                       },
                       [&](keyed_core& one) {
                           simulation::current().calling().key = limiter;
                           tell(one, [&](keyed_room& r, time_point now) {
                               r.cancel_key(look_up(limiter), now);
                           });
                       }});
    }
    static void look(core& c) {
        c.with([](auto& one) { static_cast<void>(one.stats()); });
    }

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
                         [&](auto& c, auto const&... who) { return c.enter(op, limit, who...); });
    }
    static void began(request& r, bool waits) {
        if (r.wants == request::wish::permits)
            static_cast<visit&>(r).waits = waits;
    }

    turn enter_at_once(call& c, action const& a, error_code& ec) {
        auto& v = begin_call(c, visit::way::tries_first, a);
        turn granted{.whose = &v};
        if (is_chain(a)) {
            wishes all(*this, a);
            granted.all = enter_now(all, weir::detail::enter_chain_at_once, ec);
        } else {
            granted.alone = with_core(a, [&](auto& one, auto const&... who) {
                return one.enter_at_once({a.n, a.how}, ec, who...);
            });
        }
        if (granted || ec)
            tell(v, ec, granted);
        return granted;
    }
    turn try_enter(call& c, action const& a, error_code& ec) {
        auto& v = begin_call(c, visit::way::tries, a);
        turn granted{.whose = &v};
        if (is_chain(a)) {
            wishes all(*this, a);
            granted.all = enter_now(all, weir::detail::try_chain, ec);
        } else {
            granted.alone = with_core(a, [&](auto& one, auto const&... who) {
                return one.try_enter({a.n, a.how}, ec, who...);
            });
        }
        tell(v, ec, granted);
        return granted;
    }
    turn charge(call& c, action const& a) {
        auto& v = begin_call(c, visit::way::charges, a);
        turn granted{.whose = &v};
        granted.alone =
            with_core(a, [&](auto& one, auto const&... who) { return one.charge(a.n, who...); });
        tell(v, granted ? error_code() : error_code(weir::errc::closed), granted);
        return granted;
    }

    static void comes_home(call& c, turn const& t, bool used) {
        simulation::unfailing const ours;
        if (t.alone)
            c.home_of_each.push_back(part_home(t, 0, t.alone, used));
        for (std::size_t i = 0; i != chained_limiters; ++i) {
            if (t.all[i])
                c.home_of_each.push_back(part_home(t, i, t.all[i], used));
        }
    }
    void leave_part(turn& t, action const& a) {
        auto const leave = [&](permit& p, std::size_t i) {
            auto const home = part_home(t, i, p, true);
            simulation::calls c(call::kind::leave, core_of_limiter(layout_, home.limiter));
            c.home_of_each.push_back(home);
            p.leave();
        };
        auto const i = static_cast<std::size_t>(a.n) % t.whose->named.size();
        if (t.alone)
            leave(t.alone, 0);
        else if (t.all[i])
            leave(t.all[i], i);
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

    // Observations.

    void section_begins(call& c, int number) { oracle_.section_begins(c, number); }
    void section_counts(call& c, int number, weir::detail::counting what) {
        heard().counts(c, oracle_.limiter_of(number), what);
    }
    void section_ends(call& c, int number) {
        if (heard().only_counts())  // the room does not know it yet
            return heard().ends_counting(c, number);
        auto const now = c.told.value_or(world_.threads.now());
        of_each_core_[static_cast<std::size_t>(number)].with([&](auto& ended) {
            ended.within(nullptr, [&](auto const& r, time_point) {
                of_each_limiter<weir::limiter_stats> each;
                for (int i = 0; i != chained_limiters; ++i) {
                    if (core_of_limiter(layout_, i) == number)
                        each[static_cast<std::size_t>(i)] = stats_of(r, i, now);
                }
                oracle_.section_ends(c, number, r.stats(now), each);
            });
        });
    }
    [[nodiscard]] time_point next_event(time_point now) const { return oracle_.next_event(now); }
    static void holds(seat_of<turn> const&) noexcept {}
    void quiet(core* c, station const& at, oracle::quiet_view seen) {
        if (c && !at.counts)  // a question would end that
            seen.waits = c->with([](auto& one) {
                return one.ask([](auto const& r, time_point) { return r.waits(); });
            });
        oracle_.quiet_core(at.number, seen);
    }
    void quiet(time_point now) { oracle_.quiet(now); }
    void home_has_ended() const { oracle_.home_has_ended(); }
    void finished() const { oracle_.finished(); }
    [[nodiscard]] outcomes const& counted() const noexcept { return oracle_.counted(); }

private:
    // The permits for each limiter that the action names: the same number, or one, or none except at the first.
    static of_each_limiter<amount> counts_of(action const& a) {
        of_each_limiter<amount> counts{};
        auto const& named = named_by(a.key);
        for (auto const i : named) {
            bool const is_first = i == named.front();
            counts[static_cast<std::size_t>(i)] = is_first || a.of_all ? a.n : a.resets ? 0 : 1;
        }
        return counts;
    }
    // Returns the standing that a chain names. Partitions of chains are left to unit tests.
    [[nodiscard]] weir::standing standing_of(action const& a) const {
        auto const order = world_.what.queueing.order;
        bool const ranks = order == weir::queue_order::priority || order == weir::queue_order::fair;
        return ranks ? a.how : weir::standing();
    }
    static weir::chain_options options_of_chain(action const& a) {
        return {.passes = 1 + static_cast<int>(a.lives), .reserve_for = duration(10)};
    }
    // One kind for all cores, or with `any` one kind for each.
    static of_each_limiter<chain_oracle::limiter_kind> limiters_of(scenario const& s, layout of) {
        of_each_limiter<chain_oracle::limiter_kind> all;
        for (int i = 0; i != chained_limiters; ++i) {
            auto& l = all[static_cast<std::size_t>(i)];
            l.core = core_of_limiter(of, i);
            l.which = s.which;
            if (s.in_any) {
                auto const kind = mix(s.failure_seed, 20 + static_cast<std::uint64_t>(l.core)) % 5;
                l.which = kind == 0   ? policy::sliding_log
                          : kind == 1 ? policy::token_bucket
                          : kind == 4 ? policy::resting_seats
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
        auto const limiter = named_by(a.key).front();
        return core_at(core_of(a.key))
            ->with(by_kind{[&](plain_core& c) { return f(c); },
                           [&](keyed_core& c) { return f(c, look_up(limiter)); }});
    }
    [[nodiscard]] std::shared_ptr<weir::detail::chain_member> link(int limiter,
                                                                   weir::request const& n) const {
        using weir::detail::chain_link;
        auto const& at = core_at(core_of_limiter(layout_, limiter));
        auto const make = [&]<class... Who>(auto& c, Who... who) {
            using one = std::remove_reference_t<decltype(c)>;
            weir::detail::limiter_handle<one, int> const handle{{at, &c}, 0};
            return std::shared_ptr<weir::detail::chain_member>(
                std::make_shared<chain_link<one, int, Who...>>(handle, n, who...));
        };
        return at->with(by_kind{[&](plain_core& c) { return make(c); },
                                [&](keyed_core& c) { return make(c, one_key{limiter}); }});
    }

    static std::shared_ptr<rule_type const> make_rule(chain_oracle::limiter_kind const& l,
                                                      rule const& r) {
        return std::make_shared<rule_type const>(options_of<typename Policy::options_type>(l, r));
    }
    static void change(core& c, int limiter, chain_oracle::limiter_kind const& l,
                       rule const& next) {
        c.with(by_kind{[&](plain_core& one) {
                           one.configure([&](auto& options) {
                               options = options_of<typename Policy::options_type>(l, next);
                           });
                       },
                       [&](keyed_core& one) {
                           auto const made = make_rule(l, next);
                           tell(one, [&](keyed_room& r, time_point now) {
                               heard().configured(limiter, next, now);
                               if (!r.configure(look_up(limiter), made, now))
                                   violated(invariant::verdict, "there is no space for a key");
                           });
                       }});
    }
    template <class F>
    static void tell(keyed_core& c, F f) {
        c.modify_at(host::now(), [&](keyed_room& r, time_point now) {
            simulation::unfailing const ours;
            simulation::current().calling().told = now;
            f(r, now);
        });
    }
    static weir::limiter_stats stats_of(plain_room const& r, int, time_point now) {
        return r.stats(now);
    }
    static weir::limiter_stats stats_of(keyed_room const& r, int limiter, time_point now) {
        return r.stats(look_up(limiter), now);
    }

    visit& asks(int caller, visit::way by, action const& a) {
        auto named = named_by(a.key);
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
        v.ranked = standing_of(a);
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
    // Returns the release of `p`, the permit of this turn with this index.
    static call::part_home part_home(turn const& t, std::size_t index, permit const& p, bool used) {
        return {.limiter = t.whose->named[index],
                .whose = t.whose,
                .n = p.count(),
                .taken = p.id(),
                .used = used};
    }

    void tell(visit& v, error_code ec, turn const& t) {
        simulation::unfailing const ours;
        if (static_cast<bool>(t) != (!ec && !(v.doomed && !t)))
            violated(invariant::conserved, "a result with an error and permits");
        for (std::size_t i = 0; i != v.named.size(); ++i) {
            auto const& p = v.is_chain ? t.all[i] : t.alone;
            auto const at = static_cast<std::size_t>(v.named[i]);
            if (t && (!p || p.count() != v.asks_of[at]))
                violated(invariant::conserved, "the grant differs from the request");
            if (!t)
                break;
            v.tickets[at] = p.count() == 0 ? ticket() : p.id();
            v.waited[at] = p.waited();
        }
        if (t)
            v.waited_in_all = v.is_chain ? t.all.waited() : t.alone.waited();
        if (ec && v.is_chain) {
            v.retry_after = t.all.retry_after();
            if (auto const by = t.all.rejected_by())
                v.rejected_by = v.named[*by];
        } else if (ec) {
            v.retry_after = t.alone.retry_after();
            if (ec != boost::asio::error::operation_aborted)
                v.rejected_by = v.named.front();
        }
        world_.say("caller {}: {}", v.caller, ec ? ec.message() : t ? "granted" : "destroyed");
        oracle_.told(v, ec);
    }

    simulation& world_;
    layout layout_;
    std::vector<std::shared_ptr<core>> const& cores_;
    std::array<core, chained_limiters> of_each_core_;
    of_each_limiter<chain_oracle::limiter_kind> limiters_;
    chain_oracle oracle_;
};

}  // namespace

template <>
struct outcome_of<turn> {
    template <class Operation>
    static turn take(Operation& op) {
        turn result;
        if (op.asked().wants != request::wish::permits)
            return result;
        result.whose = static_cast<visit*>(&op.asked());
        if constexpr (requires { op.entries; }) {
            result.all =
                op.error
                    ? weir::chain_permit<chained_limiters>(op.rejected)
                    : weir::chain_permit<chained_limiters>(op.entries, chained_limiters, op.waited);
            op.forget();
        } else {
            result.alone = std::move(op.granted);
        }
        return result;
    }
};

// Destroys limiters, and the context of one, while others release permits.
static void let_it_end(scenario& s) {
    action last;
    last.what = action::kind::abandon;
    s.callers.back().push_back(last);
    last.what = action::kind::end_context;
    s.callers.front().push_back(last);
}

// In every second scenario most requests are for one permit of each limiter, and ask before they wait: where they can,
// the limiters grant them by counting.
static void let_limiters_count(scenario& s) {
    auto seed = mix(s.failure_seed, 32);
    if (seed % 2 == 0)
        return;
    s.at_first.limit += 1;
    for (auto& script : s.callers) {
        for (auto& a : script) {
            seed = mix(seed, 1);
            bool const asks = a.what == action::kind::enter || a.what == action::kind::try_enter;
            if (!asks || seed % 4 == 0)
                continue;
            a.n = 1;
            a.how = {};
            a.resets = false;
            a.tries_first = true;
        }
    }
}

// In every second scenario all callers begin at the same limiter, so that several wait there, and every second
// request is for only one of the limiters that it would name.
scenario for_this_world(scenario s) {
    s = with_keys(with_shares(std::move(s)), static_cast<int>(chains().size()));
    if (s.which == policy::seats && !s.in_any)
        let_limiters_count(s);
    auto seed = mix(s.failure_seed, 31);
    auto const roll = [&](std::size_t n) {
        seed = mix(seed, 1);
        return seed % n;
    };
    if (roll(2) == 0) {
        if (roll(4) == 0)
            let_it_end(s);
        return s;
    }
    auto const where = static_cast<int>(roll(chained_limiters));
    if (s.queueing.order != weir::queue_order::shares)
        s.at_first.limit = 1;
    for (auto& script : s.callers) {
        for (auto& a : script) {
            auto const& named = named_by(a.key);
            if (roll(2) == 0)
                a.key = key_of_one(named[roll(named.size())]);
        }
        auto first = script.front();
        first.what = action::kind::enter;
        first.n = 1;
        first.time = action::unset;
        do
            first.key = static_cast<int>(roll(chains().size()));
        while (std::ranges::count(named_by(first.key), where) == 0);
        if (roll(2) == 0)
            first.key = key_of_one(where);
        action stay;
        stay.time = duration(1 + static_cast<int>(roll(8)));
        action leave;
        leave.what = action::kind::leave;
        script.insert(script.begin(), {first, stay, leave});
    }
    return s;
}

// In every fourth scenario all limiters are keys, and in every fourth some are.
static layout layout_of(scenario const& s) {
    if (s.queueing.order == weir::queue_order::shares)  // limits by key do not support it
        return layout::no_keys;
    switch (mix(s.failure_seed, 30) % 8) {
        case 0:
        case 4:
            return layout::all_keys;
        case 1:
            return layout::keys_first;
        case 2:
            return layout::keys_last;
        default:
            return layout::no_keys;
    }
}

outcomes run(scenario const& s, chooser& choices, grain how_fine, bool aloud) {
    auto const play = [&]<class Policy>(std::type_identity<Policy>) {
        return world<chained<Policy>>(layout_of(s), s, choices, how_fine, aloud).play();
    };
    if (s.in_any)
        return play(std::type_identity<weir::policy::any>());
    switch (s.which) {
        case policy::seats:
            return play(std::type_identity<weir::policy::seats>());
        case policy::resting_seats:
            return play(std::type_identity<weir::policy::resting_seats>());
        case policy::sliding_log:
            return play(std::type_identity<weir::policy::sliding_log>());
        case policy::token_bucket:
            return play(std::type_identity<weir::policy::token_bucket>());
        default:
            violated(invariant::crash, "chains are not explored with this policy");
    }
}

}  // namespace explorer
