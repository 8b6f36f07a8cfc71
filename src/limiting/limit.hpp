#pragma once

#include <weir/any_limiter.hpp>
#include <weir/chain.hpp>
#include <weir/error.hpp>
#include <weir/keyed.hpp>
#include <weir/permit.hpp>
#include <weir/policy/any.hpp>
#include <weir/policy/calendar_window.hpp>
#include <weir/policy/penalty.hpp>
#include <weir/policy/token_bucket.hpp>
#include <weir/policy/tree/plan.hpp>
#include <weir/saved_file.hpp>
#include <weir/saved_state.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>
#include <weir/token_bucket.hpp>

#include "config/configuration.hpp"
#include "path_names.hpp"
#include "selection.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

/// The limits of a configuration, and the gate that applies them to requests. weir-proxy uses them with the system's
/// clock, and weir-replay with the times of a log.
///
/// A World defines the types with which a program uses them:
///
///     struct world {
///         using executor = ...;  // of the limiters
///         using timer = ...;     // of the limiters
///         using request_info = ...;    // the known properties of a request
///         using keys = ...;      // of(request_info), of(text in the configuration): the number of a key;
///                                // client_of(request_info): the client, if it is the key of the request
///         using place = ...;     // of(request_info, cost): the weir::request for the queue of a limit
///         using hash = ...;      // of the numbers of keys
///         using limit = ...;     // limiting::limit<world>, or a class derived from it
///         template <class Permit>
///         using handler = ...;   // of the decision on a waiting request: (error_code, Permit)
///         static weir::amount cost_of(config::cost const&, request_info);  // of a cost that is not a number
///         static constexpr std::uint32_t shards = ...;  // of the limiters with keys
///     };
namespace limiting {

/// Returns the number of the node with these names in a plan; `tree_kind::none` if it has none.
[[nodiscard]] std::uint32_t node_of(weir::policy::tree_plan const& plan, path_names const& names);

/// Whether a limit can be part of a chain. A limit of a store cannot, because a store cannot decide under a lock. A
/// limit with the order `lifo`, `adaptive_lifo` or `codel` cannot, because they do not order or drop waiting chains.
[[nodiscard]] bool can_be_chained(config::limit const& c);

/// Whether a limit with the configuration `before` can be reconfigured to `after`.
[[nodiscard]] bool can_become(config::limit const& before, config::limit const& after);

/// The keys of a limit, and their memory.
struct tracked_keys {
    std::uint64_t count = 0;
    std::uint64_t bytes = 0;
    std::uint64_t evicted = 0;
};

/// The state of a limit that is saved under one name.
struct saved_part {
    std::string name;  // begins with a line with the name of the limit
    std::function<void(weir::state_writer&, std::string_view name)>
        save;  // on any thread, while the limit exists
    std::function<weir::restored_state(weir::saved_state const&, std::string_view name)> restore;
};
/// Returns the name of the state of a limit: its name, its key, and the rule of an override.
[[nodiscard]] std::string state_name(config::limit const& c, std::string const& rule = {});
/// Whether a rule has a state that can be saved. Seats have none, unless they are adaptive.
[[nodiscard]] bool has_state(weir::limiter_config const& rule);

/// A limit of the configuration, shared by all routes that name it. Any thread may call all members except `configure`,
/// if the executor and the timer allow this.
template <class World>
class limit {
public:
    using request_info = typename World::request_info;
    using handler = typename World::template handler<weir::permit>;
    using link_type = weir::basic_any_link<typename World::executor>;

    explicit limit(config::limit const& c)
        : configuration_(c),
          has_seats_(config::has_seats(c.rule)),
          is_adaptive_(config::is_adaptive(c.rule)),
          is_chained_(can_be_chained(c)) {}
    limit(limit const&) = delete;
    virtual ~limit() = default;

    using selection_type = limiting::selection<World>;
    /// Selects the limiters of requests, by the latest configuration. It stays valid after another one, while this
    /// object lives. Call it on the thread that configures.
    [[nodiscard]] virtual std::shared_ptr<selection_type const> selection() const {
        return std::make_shared<selection_type const>(configuration_.is_unlimited);
    }
    /// Returns the names of a request in the tree of this limit. Precondition: the configuration has a tree.
    [[nodiscard]] virtual path_names names_of(request_info const&) const { return {}; }
    /// Enters without waiting. `at` is the result of a selection for this request, and must not be unlimited: a key may
    /// be slow to hash, so each request hashes it once.
    [[nodiscard]] virtual weir::permit try_enter(request_info const& who, selected const& at,
                                                 weir::error_code& ec) = 0;
    /// Enters if that needs no wait; otherwise returns an empty permit and no error, and counts nothing.
    [[nodiscard]] virtual weir::permit enter_at_once(request_info const& who, selected const& at,
                                                     weir::error_code& ec) = 0;
    /// Enters, and waits for up to `patience`. `at` is as for `try_enter`.
    virtual void async_enter(request_info const& who, selected const& at, weir::duration patience,
                             handler h) = 0;
    /// The limit as a member of a chain, for a request. `at` is as for `try_enter`. Precondition: `is_chained()`.
    [[nodiscard]] virtual link_type link(request_info const& who, selected const& at) const = 0;
    /// Rejects all waiting requests and all later ones.
    virtual void close() noexcept = 0;
    /// The states to save; none for a limit of a store. Call it on the thread that configures.
    [[nodiscard]] virtual std::vector<saved_part> saved_parts() { return {}; }

    [[nodiscard]] virtual weir::limiter_stats stats() const = 0;
    /// The statistics and the histogram of waits, at one instant.
    [[nodiscard]] virtual weir::snapshot<weir::limiter_stats> snapshot() const = 0;
    /// The current number of seats for a key; empty unless the seats are adaptive.
    [[nodiscard]] virtual std::optional<weir::amount> seats_now(selected const&) const {
        return {};
    }
    /// The keys tracked now by the rule that has the most, and the memory of the rule that needs the most; empty for a
    /// limit without keys.
    [[nodiscard]] virtual std::optional<tracked_keys> keys() const { return {}; }

    /// Applies another configuration. Permits and waiting requests stay. Precondition: `can_become(configuration(),
    /// c)`.
    void configure(config::limit const& c) {
        change_rule(c.rule);
        change(configuration_, c);
        configuration_ = c;
    }
    /// Applies another rule of the same kind; `configuration` does not change. Call it on any thread.
    virtual void change_rule(weir::limiter_config const& rule) { apply_rule(rule); }

    /// The configuration. Call it on the thread that calls `configure`.
    [[nodiscard]] config::limit const& configuration() const noexcept { return configuration_; }
    [[nodiscard]] bool has_seats() const noexcept { return has_seats_; }
    [[nodiscard]] bool is_adaptive() const noexcept { return is_adaptive_; }
    [[nodiscard]] bool is_chained() const noexcept { return is_chained_; }

protected:
    virtual void apply_rule(weir::limiter_config const& rule) = 0;
    /// Applies the changes of all members except the rule.
    virtual void change(config::limit const& before, config::limit const& after) = 0;

private:
    config::limit configuration_;
    bool has_seats_;
    bool is_adaptive_;
    bool is_chained_;
};

/// Returns the state of a limiter, which exists as long as `owner`.
template <class Limiter>
[[nodiscard]] saved_part part_of(std::string name, Limiter& limiter,
                                 std::shared_ptr<void const> const& owner) {
    return {
        std::move(name),
        [&limiter, owner](weir::state_writer& to, std::string_view as) { save(limiter, to, as); },
        [&limiter, owner](weir::saved_state const& from, std::string_view as) {
            return restore(limiter, from, as);
        }};
}

/// A limit for all requests together.
template <class World>
class total_limit final : public World::limit {
    using base = limit<World>;
    using request_info = typename base::request_info;

public:
    total_limit(typename World::executor const& ex, config::limit const& c,
                typename World::place place)
        : World::limit(c),
          limiter_(ex, c.rule, c.queue),
          link_(limiter_),
          place_(std::move(place)) {}

    weir::permit try_enter(request_info const& who, selected const& at,
                           weir::error_code& ec) override {
        return limiter_.try_enter(place_.of(who, at.cost), ec);
    }
    weir::permit enter_at_once(request_info const& who, selected const& at,
                               weir::error_code& ec) override {
        return limiter_.enter_at_once(place_.of(who, at.cost), ec);
    }
    void async_enter(request_info const& who, selected const& at, weir::duration patience,
                     typename base::handler h) override {
        limiter_.async_enter(place_.of(who, at.cost), patience, std::move(h));
    }
    typename base::link_type link(request_info const& who, selected const& at) const override {
        auto const wanted = place_.of(who, at.cost);
        return wanted == weir::request() ? link_ : typename base::link_type(limiter_.with(wanted));
    }
    void close() noexcept override { limiter_.close(); }
    std::vector<saved_part> saved_parts() override {
        std::vector<saved_part> parts;
        if (has_state(base::configuration().rule))
            parts.push_back(part_of(state_name(base::configuration()), limiter_, nullptr));
        return parts;
    }
    weir::limiter_stats stats() const override { return limiter_.stats(); }
    weir::snapshot<weir::limiter_stats> snapshot() const override { return limiter_.snapshot(); }
    std::optional<weir::amount> seats_now(selected const&) const override {
        return base::is_adaptive() ? std::optional(limiter_.stats().capacity) : std::nullopt;
    }

private:
    void apply_rule(weir::limiter_config const& rule) override {
        limiter_.configure([&](weir::limiter_config& current) { current = rule; });
    }
    void change(config::limit const&, config::limit const& after) override {
        limiter_.configure_queue([&](weir::queue_options& queue) { queue = after.queue; });
    }

    weir::basic_any_limiter<typename World::executor, typename World::timer> limiter_;
    typename base::link_type const link_;
    typename World::place const place_;
};

/// Returns the bounds of the keys of a limit.
template <class World>
[[nodiscard]] weir::keyed_options keyed_options_of(config::limit const& c) {
    return {.max_keys = static_cast<std::uint64_t>(c.max_keys),
            .max_bytes = static_cast<std::uint64_t>(c.max_memory),
            .evict_within = c.evict_within,
            .no_place = c.when_full == config::full_of_keys::share ? weir::when_no_place::share
                                                                   : weir::when_no_place::reject,
            .shards = World::shards};
}

/// A limit with a separate limiter for each key. Requests with different keys do not wait for each other.
///
/// Keys with an override for many keys have separate limiters, one set for each different rule.
template <class World, class Policy>
class keyed_limit final : public World::limit {
    using base = limit<World>;
    using request_info = typename base::request_info;
    using options = typename Policy::options_type;

public:
    keyed_limit(typename World::executor const& ex, config::limit const& c,
                typename World::keys keys, typename World::place place)
        : World::limit(c), executor_(ex), keys_(std::move(keys)), place_(std::move(place)) {
        all_.push_back(make_limiters(c, c.rule));
        apply_overrides({}, c);
    }

    std::shared_ptr<typename base::selection_type const> selection() const override {
        return selection_;
    }
    weir::permit try_enter(request_info const& who, selected const& at,
                           weir::error_code& ec) override {
        return of(at).try_enter(at.key, place_.of(who, at.cost), ec);
    }
    weir::permit enter_at_once(request_info const& who, selected const& at,
                               weir::error_code& ec) override {
        return of(at).enter_at_once(at.key, place_.of(who, at.cost), ec);
    }
    void async_enter(request_info const& who, selected const& at, weir::duration patience,
                     typename base::handler h) override {
        of(at).async_enter(at.key, place_.of(who, at.cost), patience, std::move(h));
    }
    typename base::link_type link(request_info const& who, selected const& at) const override {
        return of(at).with(at.key, place_.of(who, at.cost));
    }
    void close() noexcept override {
        for (auto const& one : all())
            one->limiter.close();
    }
    std::vector<saved_part> saved_parts() override {
        std::vector<saved_part> parts;
        auto const& c = base::configuration();
        if (!has_state(c.rule))
            return parts;
        auto const add = [&](std::string name, shared_limiters const& of) {
            parts.push_back(part_of(std::move(name), of->limiter, of));
        };
        add(state_name(c), all().front());
        for (auto const& [rule, of] : wide_)
            add(state_name(c, rule), of);
        return parts;
    }
    weir::limiter_stats stats() const override { return snapshot().stats; }
    weir::snapshot<weir::limiter_stats> snapshot() const override {
        weir::snapshot<weir::limiter_stats> sum;
        for (auto const& one : all()) {
            auto const part = one->limiter.snapshot();
            sum.stats += part.stats.total;
            sum.waits += part.waits;
        }
        return sum;
    }
    std::optional<weir::amount> seats_now(selected const& at) const override {
        return base::is_adaptive() ? std::optional(of(at).stats(at.key).capacity) : std::nullopt;
    }
    std::optional<tracked_keys> keys() const override {
        tracked_keys most;
        for (auto const& one : all()) {
            auto const now = one->limiter.stats();
            most = {std::max(most.count, now.keys), std::max(most.bytes, now.bytes),
                    most.evicted + now.evicted};
        }
        return most;
    }

private:
    using keyed_limiter = weir::basic_keyed<std::uint64_t, Policy, typename World::executor,
                                            typename World::timer, typename World::hash>;
    struct limiters final : rule_limiters {
        limiters(typename World::executor const& ex, options const& rule,
                 weir::keyed_options const& keys, weir::queue_options const& queue)
            : limiter(ex, rule, keys, queue) {}
        keyed_limiter limiter;
    };
    using shared_limiters = std::shared_ptr<limiters>;

    [[nodiscard]] static keyed_limiter& of(selected const& at) noexcept {
        return static_cast<limiters*>(at.among)->limiter;
    }
    [[nodiscard]] shared_limiters make_limiters(config::limit const& c,
                                                weir::limiter_config const& rule) const {
        return std::make_shared<limiters>(
            executor_, options_of(rule), keyed_options_of<World>(c), c.queue);
    }
    [[nodiscard]] std::vector<shared_limiters> all() const {
        std::lock_guard const lock(mutex_);
        return all_;
    }

    void apply_rule(weir::limiter_config const& rule) override {
        all().front()->limiter.configure(options_of(rule));
    }
    static options options_of(weir::limiter_config const& rule) {
        if constexpr (std::is_same_v<options, weir::limiter_config>)
            return rule;
        else
            return std::get<options>(rule.options);
    }

    void change(config::limit const& before, config::limit const& after) override {
        for (auto const& one : all())
            one->limiter.configure_queue([&](weir::queue_options& queue) { queue = after.queue; });
        apply_overrides(before, after);
    }
    void apply_overrides(config::limit const& before, config::limit const& c) {
        auto& common = all().front()->limiter;
        std::unordered_set<std::string_view> named;
        for (auto const& [key, rule] : c.overrides)
            if (rule)
                named.insert(key);
        for (auto const& [key, rule] : before.overrides)
            if (is_one_key(key, before) && rule && !named.contains(key))
                common.reset(keys_.of(key));
        for (auto const& [key, rule] : c.overrides)
            if (is_one_key(key, c) && rule)
                common.configure(keys_.of(key), options_of(*rule));
        selection_ = std::make_shared<typename base::selection_type const>(
            c, keys_, all().front(), limiters_of_wide(c));
    }
    [[nodiscard]] static bool is_one_key(std::string const& key, config::limit const& c) {
        auto const clients = config::clients_named(key, c);
        return !clients || clients->is_one_key;
    }
    // The limiters of the overrides for many keys, by the number of the override. A rule that is new takes over the
    // limiters of a rule that no override has any longer, so that a changed rule keeps the state of its keys.
    [[nodiscard]] std::vector<std::shared_ptr<rule_limiters>> limiters_of_wide(
        config::limit const& c) {
        std::map<std::string, shared_limiters> before;
        std::swap(before, wide_);
        std::vector<std::pair<std::size_t, std::string>> wanted;
        for (std::size_t i = 0; i != c.overrides.size(); ++i)
            if (auto const& [key, rule] = c.overrides[i]; rule && !is_one_key(key, c))
                wanted.emplace_back(i, to_string(*rule));
        for (auto const& [i, text] : wanted)
            if (auto const old = before.find(text); old != before.end()) {
                wide_.insert(*old);
                before.erase(old);
            }
        for (auto const& [text, old] : before)
            unused_.push_back(old);
        std::vector<std::shared_ptr<rule_limiters>> found(c.overrides.size());
        for (auto const& [i, text] : wanted) {
            auto& its = wide_[text];
            if (!its)
                its = reuse_limiters(c, *c.overrides[i].second);
            found[i] = its;
        }
        return found;
    }
    [[nodiscard]] shared_limiters reuse_limiters(config::limit const& c,
                                                 weir::limiter_config const& rule) {
        if (unused_.empty()) {
            auto made = make_limiters(c, rule);
            std::lock_guard const lock(mutex_);
            return all_.emplace_back(std::move(made));
        }
        auto old = std::move(unused_.back());
        unused_.pop_back();
        old->limiter.configure(options_of(rule));
        return old;
    }

    typename World::executor const executor_;
    typename World::keys const keys_;
    typename World::place const place_;

    // The first limiters are for keys without an override and for overrides of one key. None is ever removed, because the
    // statistics include requests of the past.
    std::mutex mutable mutex_;
    std::vector<shared_limiters> all_;
    std::map<std::string, shared_limiters> wide_;  // for overrides of many keys, by their rule
    std::vector<shared_limiters> unused_;          // for rules of an earlier configuration
    std::shared_ptr<typename base::selection_type const> selection_;
};

/// Creates a limit that this process counts: for each key if `keys` is set, otherwise for all requests. `ex` serves
/// waiting requests and must run while requests may wait.
template <class World>
[[nodiscard]] std::shared_ptr<typename World::limit> make_limit(
    typename World::executor const& ex, config::limit const& c,
    std::optional<typename World::keys> keys, typename World::place const& place) {
    if (!keys)
        return std::make_shared<total_limit<World>>(ex, c, place);
    // These are the kinds for many clients: their own limiters take less than a sixth of the memory of `policy::any`.
    if (std::holds_alternative<weir::token_bucket_options>(c.rule.options))
        return std::make_shared<keyed_limit<World, weir::policy::token_bucket>>(
            ex, c, std::move(*keys), place);
    if (std::holds_alternative<weir::calendar_window_options>(c.rule.options))
        return std::make_shared<keyed_limit<World, weir::policy::calendar_window>>(
            ex, c, std::move(*keys), place);
    if (config::is_penalty(c.rule))
        return std::make_shared<keyed_limit<World, weir::policy::penalty>>(
            ex, c, std::move(*keys), place);
    return std::make_shared<keyed_limit<World, weir::policy::any>>(ex, c, std::move(*keys), place);
}

}  // namespace limiting
