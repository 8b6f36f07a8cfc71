#include "store_limit.hpp"

#include <weir/shared/keyed.hpp>
#include <weir/shared/limiter.hpp>

#include "tool/trouble.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>

namespace proxy {
namespace {

void tell_of(std::string const& name, weir::mode_change const& change,
             weir::store_failure const& failure) {
    auto const why = !failure.text.empty() ? failure.text
                     : failure.error       ? failure.error.message()
                                           : "no reply";
    auto const what = [&]() -> std::string {
        switch (change.after) {
            case weir::shared_mode::store:
                return "the store is available again";
            case weir::shared_mode::closed:
                return fmt::format("the store is unavailable ({}): requests get 503", why);
            case weir::shared_mode::open:
                return fmt::format("the store is unavailable ({}): the limit is off", why);
            case weir::shared_mode::local:
                return fmt::format(
                    "the store is unavailable ({}): this proxy grants its local share", why);
            case weir::shared_mode::misconfigured:
                return fmt::format("the store is misconfigured ({}): requests get 503", why);
        }
        return {};
    };
    tool::say(change.after == weir::shared_mode::store ? tool::level::info : tool::level::warning,
              fmt::format("weir-proxy: {}: {}\n", name, what()));
}

std::string name_at_store(config::limit const& c) {
    return c.shared_as.empty() ? c.name : c.shared_as;
}

/// The limiter of a limit that a store counts for all requests together.
template <class Policy>
struct store_total {
    store_total(net::executor const& ex, config::limit const& c,
                std::shared_ptr<weir::store> const& e)
        : limiter(ex, e, name_at_store(c), shared_rule_of(c).options, c.queue) {}

    // Calls `f` with the key of a request.
    template <class F>
    static auto with_key(request_info const&, F f) {
        return f();
    }
    [[nodiscard]] weir::snapshot<weir::limiter_stats> snapshot() const {
        return limiter.snapshot();
    }
    [[nodiscard]] std::optional<limiting::tracked_keys> keys() const { return {}; }
    [[nodiscard]] static limiting::selection<world> selection(config::limit const& c) {
        return limiting::selection<world>(c.is_unlimited);
    }
    // Whether a request that waited without success was above the limit, as far as the store has replied.
    [[nodiscard]] static bool is_limited(weir::permit const&, weir::shared_stats const& s,
                                         std::uint64_t answered_before) {
        return !s.is_asking() || s.answered != answered_before;
    }

    weir::basic_shared_limiter<Policy, net::executor, net::timer> limiter;
};

/// The limiters of a limit that a store counts for each key.
template <class Policy>
struct store_keys {
    store_keys(net::executor const& ex, config::limit const& c,
               std::shared_ptr<weir::store> const& e)
        : limiter(ex, e, name_at_store(c), shared_rule_of(c).options,
                  limiting::keyed_options_of<world>(c), c.queue),
          keys_of(c) {}

    template <class F>
    auto with_key(request_info const& who, F f) const {
        return f(keys_of.text_of(who));
    }
    [[nodiscard]] weir::snapshot<weir::limiter_stats> snapshot() const {
        auto const all = limiter.snapshot();
        return {all.stats.total, all.waits};
    }
    [[nodiscard]] std::optional<limiting::tracked_keys> keys() const {
        auto const now = limiter.stats();
        return limiting::tracked_keys{now.keys, now.bytes, now.evicted};
    }
    [[nodiscard]] limiting::selection<world> selection(config::limit const& c) const {
        return {c, keys_of, nullptr, {}};
    }
    // Without a reply of the store the time of a grant is unknown.
    [[nodiscard]] static bool is_limited(weir::permit const& rejected, weir::shared_stats const&,
                                         std::uint64_t) {
        return rejected.retry_after().has_value();
    }

    weir::basic_shared_keyed<std::string, Policy, net::executor, net::timer> limiter;
    keys_of_requests const keys_of;
};

/// A rate that a store counts, for all proxies that use the same name.
template <class Counted>
class store_limit final : public limit {
public:
    store_limit(net::executor const& ex, config::limit const& c,
                std::shared_ptr<weir::store> const& e)
        : limit(c), counted_(ex, c, e), asks_(c) {
        watch();
    }

    std::shared_ptr<selection_type const> selection() const override {
        return std::make_shared<selection_type const>(counted_.selection(configuration()));
    }
    weir::permit try_enter(request_info const& who, limiting::selected const& at,
                           net::error_code& ec) override {
        return counted_.with_key(who, [&](auto const&... key) {
            return limiter().try_enter(key..., asks_.of(who, at.cost), ec);
        });
    }
    weir::permit enter_at_once(request_info const& who, limiting::selected const& at,
                               net::error_code& ec) override {
        return counted_.with_key(who, [&](auto const&... key) {
            return limiter().enter_at_once(key..., asks_.of(who, at.cost), ec);
        });
    }
    void async_enter(request_info const& who, limiting::selected const& at, weir::duration patience,
                     handler h) override {
        counted_.with_key(who, [&](auto const&... key) {
            limiter().async_enter(key..., asks_.of(who, at.cost), patience, std::move(h));
        });
    }
    // A request that waited for a reply of the store only was not above the limit: it gets 503, not 429.
    net::task<verdict<weir::permit>> enter(request_info const& who, limiting::selected const& at,
                                           net::connection& client,
                                           weir::duration patience) override {
        auto const before = limiter().shared_stats().answered;
        auto decided = co_await limit::enter(who, at, client, patience);
        if (decided.ec != weir::errc::timed_out)
            co_return decided;
        auto const s = limiter().shared_stats();
        using mode = weir::shared_mode;
        bool const decides_here = s.mode == mode::open || s.mode == mode::local;
        // The patience may end at the instant at which the outage begins.
        bool const is_above = s.mode == mode::store && s.failing == 0 &&
                              Counted::is_limited(decided.permit, s, before);
        if (!decides_here && !is_above)
            decided.ec = weir::errc::unavailable;
        co_return decided;
    }
    link_type link(request_info const&, limiting::selected const&) const override {
        std::terminate();
    }
    void close() noexcept override { limiter().close(); }
    weir::limiter_stats stats() const override { return counted_.snapshot().stats; }
    weir::snapshot<weir::limiter_stats> snapshot() const override { return counted_.snapshot(); }
    std::optional<limiting::tracked_keys> keys() const override { return counted_.keys(); }
    std::optional<weir::shared_stats> store_stats() const override {
        return counted_.limiter.shared_stats();
    }
    weir::duration round_trip() const override { return counted_.limiter.shared_stats().timeout; }
    std::string more() const override {
        auto const s = counted_.limiter.shared_stats();
        return fmt::format("; store: {} requests, {} failed, {} unanswered, {} granted without it",
                           s.questions, s.failed, s.unknown, s.bypassed_permits);
    }

private:
    [[nodiscard]] auto& limiter() noexcept { return counted_.limiter; }

    void apply_rule(weir::limiter_config const& rule) override {
        auto wanted = configuration();
        wanted.rule = rule;
        keep(wanted);
    }
    void change(config::limit const&, config::limit const& after) override {
        keep(after);
        limiter().configure_queue([&](weir::queue_options& queue) { queue = after.queue; });
    }
    void keep(config::limit const& c) {
        limiter().configure([&](weir::shared_options& o) { o = shared_rule_of(c).options; });
    }
    // Logs each change of the mode.
    void watch() {
        limiter().async_wait_mode_change(
            [this](net::error_code ec, weir::mode_change const& change) {
                if (ec)
                    return;
                tell_of(configuration().name, change, limiter().last_failure());
                watch();
            });
    }

    Counted counted_;
    place_in_queue const asks_;
};

template <template <class> class Counted>
std::shared_ptr<limit> make(net::executor const& ex, config::limit const& c,
                            std::shared_ptr<weir::store> const& e) {
    if (shared_rule_of(c).log)
        return std::make_shared<store_limit<Counted<weir::policy::fed_log>>>(ex, c, e);
    return std::make_shared<store_limit<Counted<weir::policy::fed>>>(ex, c, e);
}

}  // namespace

std::shared_ptr<limit> make_store_limit(net::executor const& ex, config::limit const& c,
                                        std::shared_ptr<weir::store> const& store) {
    return c.key.empty() ? make<store_total>(ex, c, store) : make<store_keys>(ex, c, store);
}

}  // namespace proxy
