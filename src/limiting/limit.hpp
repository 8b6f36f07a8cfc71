#pragma once

#include <weir/any_limiter.hpp>
#include <weir/chain.hpp>
#include <weir/error.hpp>
#include <weir/keyed.hpp>
#include <weir/permit.hpp>
#include <weir/policy/any.hpp>
#include <weir/policy/token_bucket.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>
#include <weir/token_bucket.hpp>

#include "config/configuration.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <variant>

/// The limits of a configuration, and the gate that applies them to requests. weir-proxy uses them with the system's
/// clock, and weir-replay with the times of a log.
///
/// A World defines the types with which a program uses them:
///
///     struct world {
///         using executor = ...;  // of the limiters
///         using timer = ...;     // of the limiters
///         using request_info = ...;    // the known properties of a request
///         using keys = ...;      // of(request_info), of(text in the configuration): the number of a key
///         using place = ...;     // of(request_info): the weir::request for the queue of a limit
///         using hash = ...;      // of the numbers of keys
///         using limit = ...;     // limiting::limit<world>, or a class derived from it
///         template <class Permit>
///         using handler = ...;   // of the decision on a waiting request: (error_code, Permit)
///         static constexpr std::uint32_t shards = ...;  // of the limiters with keys
///     };
namespace limiting {

/// Whether a limit can be part of a chain. A limit of a store cannot, because a store cannot decide under a lock. A
/// limit with another order than `fifo` cannot, because a chain grants requests in arrival order.
[[nodiscard]] bool can_be_chained(config::limit const& c);

/// Whether a limit with the configuration `before` can be reconfigured to `after`.
[[nodiscard]] bool can_become(config::limit const& before, config::limit const& after);

/// The keys of a limit, and their memory.
struct tracked_keys {
    std::uint64_t count = 0;
    std::uint64_t bytes = 0;
};

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

    /// The number of the request's key; 0 for a limit without keys. Call it only while the request's header exists.
    [[nodiscard]] virtual std::uint64_t key_of(request_info const&) const { return 0; }
    /// Enters without waiting. `key` must be `key_of(who)`: a key may be slow to hash, so each request hashes it once.
    [[nodiscard]] virtual weir::permit try_enter(request_info const& who, std::uint64_t key,
                                                 weir::error_code& ec) = 0;
    /// Enters, and waits for up to `patience`. `key` must be `key_of(who)`.
    virtual void async_enter(request_info const& who, std::uint64_t key, weir::duration patience,
                             handler h) = 0;
    /// The limit as a member of a chain. Precondition: `is_chained()`.
    [[nodiscard]] virtual link_type link(std::uint64_t key) const = 0;
    /// Rejects all waiting requests and all later ones.
    virtual void close() noexcept = 0;

    [[nodiscard]] virtual weir::limiter_stats stats() const = 0;
    /// The statistics and the histogram of waits, at one instant.
    [[nodiscard]] virtual weir::snapshot<weir::limiter_stats> snapshot() const = 0;
    /// The current number of seats for a key; empty unless the seats are adaptive.
    [[nodiscard]] virtual std::optional<weir::amount> seats_now(std::uint64_t) const { return {}; }
    /// The keys tracked now; empty for a limit without keys.
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

/// A limit for all requests together.
template <class World>
class total_limit final : public World::limit {
    using base = limit<World>;
    using request_info = typename base::request_info;

public:
    total_limit(typename World::executor const& ex, config::limit const& c,
                typename World::place place)
        : World::limit(c), limiter_(ex, c.rule, c.queue), link_(limiter_), place_(place) {}

    weir::permit try_enter(request_info const& who, std::uint64_t, weir::error_code& ec) override {
        return limiter_.try_enter(place_.of(who), ec);
    }
    void async_enter(request_info const& who, std::uint64_t, weir::duration patience,
                     typename base::handler h) override {
        limiter_.async_enter(place_.of(who), patience, std::move(h));
    }
    typename base::link_type link(std::uint64_t) const override { return link_; }
    void close() noexcept override { limiter_.close(); }
    weir::limiter_stats stats() const override { return limiter_.stats(); }
    weir::snapshot<weir::limiter_stats> snapshot() const override { return limiter_.snapshot(); }
    std::optional<weir::amount> seats_now(std::uint64_t) const override {
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

/// A limit with a separate limiter for each key. Requests with different keys do not wait for each other.
template <class World, class Policy>
class keyed_limit final : public World::limit {
    using base = limit<World>;
    using request_info = typename base::request_info;
    using options = typename Policy::options_type;

public:
    keyed_limit(typename World::executor const& ex, config::limit const& c,
                typename World::keys keys, typename World::place place)
        : World::limit(c),
          limiter_(
              ex, options_of(c.rule),
              {.max_keys = static_cast<std::uint64_t>(c.max_keys),
               .max_bytes = static_cast<std::uint64_t>(c.max_memory),
               .no_place = c.when_full == config::full_of_keys::share ? weir::when_no_place::share
                                                                      : weir::when_no_place::reject,
               .shards = World::shards},
              c.queue),
          keys_(std::move(keys)),
          place_(place) {
        override_keys({}, c);
    }

    std::uint64_t key_of(request_info const& who) const override { return keys_.of(who); }
    weir::permit try_enter(request_info const& who, std::uint64_t key,
                           weir::error_code& ec) override {
        return limiter_.try_enter(key, place_.of(who), ec);
    }
    void async_enter(request_info const& who, std::uint64_t key, weir::duration patience,
                     typename base::handler h) override {
        limiter_.async_enter(key, place_.of(who), patience, std::move(h));
    }
    typename base::link_type link(std::uint64_t key) const override { return limiter_.with(key); }
    void close() noexcept override { limiter_.close(); }
    weir::limiter_stats stats() const override { return limiter_.stats().total; }
    weir::snapshot<weir::limiter_stats> snapshot() const override {
        auto const all = limiter_.snapshot();
        return {all.stats.total, all.waits};
    }
    std::optional<weir::amount> seats_now(std::uint64_t key) const override {
        return base::is_adaptive() ? std::optional(limiter_.stats(key).capacity) : std::nullopt;
    }
    std::optional<tracked_keys> keys() const override {
        auto const now = limiter_.stats();
        return tracked_keys{now.keys, now.bytes};
    }

private:
    void apply_rule(weir::limiter_config const& rule) override {
        limiter_.configure(options_of(rule));
    }
    static options options_of(weir::limiter_config const& rule) {
        if constexpr (std::is_same_v<options, weir::limiter_config>)
            return rule;
        else
            return std::get<options>(rule.options);
    }

    void change(config::limit const& before, config::limit const& after) override {
        limiter_.configure_queue([&](weir::queue_options& queue) { queue = after.queue; });
        override_keys(before.overrides, after);
    }
    void override_keys(decltype(config::limit::overrides) const& before, config::limit const& c) {
        std::unordered_set<std::string_view> named;
        for (auto const& [key, rule] : c.overrides)
            named.insert(key);
        for (auto const& [key, rule] : before)
            if (!named.contains(key))
                limiter_.reset(keys_.of(key));
        for (auto const& [key, rule] : c.overrides)
            limiter_.configure(keys_.of(key), options_of(rule));
    }

    weir::basic_keyed<std::uint64_t, Policy, typename World::executor, typename World::timer,
                      typename World::hash>
        limiter_;
    typename World::keys const keys_;
    typename World::place const place_;
};

/// Creates a limit that this process counts: for each key if `keys` is set, otherwise for all requests. `ex` serves
/// waiting requests and must run while requests may wait.
template <class World>
[[nodiscard]] std::shared_ptr<typename World::limit> make_limit(
    typename World::executor const& ex, config::limit const& c,
    std::optional<typename World::keys> keys, typename World::place place) {
    if (!keys)
        return std::make_shared<total_limit<World>>(ex, c, place);
    // Token buckets are the kind for many clients: their own limiter takes a sixth of the memory of `policy::any`.
    if (std::holds_alternative<weir::token_bucket_options>(c.rule.options))
        return std::make_shared<keyed_limit<World, weir::policy::token_bucket>>(
            ex, c, std::move(*keys), place);
    return std::make_shared<keyed_limit<World, weir::policy::any>>(ex, c, std::move(*keys), place);
}

}  // namespace limiting
