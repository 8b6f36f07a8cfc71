#pragma once

#include <weir/keyed.hpp>
#include <weir/permit.hpp>
#include <weir/shared/limiter.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>

#include "net/asio.hpp"
#include "net/connection.hpp"
#include "options.hpp"
#include "turn.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace proxy {

/// What is told of a rule.
struct rule_text {
    char const* name;  // in the report

    unsigned status;         // of the answer to a request that is turned away
    char const* limited;     // why: at once,
    char const* late;        // since its turn would come or has come too late,
    char const* queue_full;  // or since too many wait

    // Whether a request that is sent again needs another permit.
    bool counts_repeats;
};

/// What is said of the questions to an engine, in the report; and at once, when something else decides than before.
[[nodiscard]] std::string told_of(weir::shared_stats const& s);
void tell_of(weir::mode_change const& change, net::error_code why);

/// One of the rules at the gate. A client is known by its `weir::client_key`.
class rule {
public:
    explicit rule(rule_text const& t) noexcept : text(t) {}
    rule(rule const&) = delete;
    virtual ~rule() = default;

    [[nodiscard]] virtual weir::permit try_enter(std::uint64_t who) = 0;
    [[nodiscard]] virtual net::task<verdict> enter(std::uint64_t who, net::connection& client,
                                                   weir::duration patience) = 0;
    [[nodiscard]] virtual weir::limiter_stats stats() const = 0;
    /// How long a permit may take even if it is there.
    [[nodiscard]] virtual weir::duration round_trip() const { return {}; }
    /// What else is told of it in the report.
    [[nodiscard]] virtual std::string more() const { return {}; }
    /// How many clients it keeps apart for the moment, if it does that.
    [[nodiscard]] virtual std::optional<std::uint64_t> clients() const { return {}; }

    rule_text const text;
};

/// A rule that holds for all clients together.
template <class Limiter>
class shared_rule : public rule {
public:
    template <class... Arguments>
    explicit shared_rule(rule_text const& t, Arguments const&... arguments)
        : rule(t), limiter_(arguments...) {}

    weir::permit try_enter(std::uint64_t) override { return limiter_.try_enter(); }
    net::task<verdict> enter(std::uint64_t, net::connection& client,
                             weir::duration patience) override {
        return wait_turn(client, [this, patience](on_turn handler) {
            limiter_.async_enter(patience, std::move(handler));
        });
    }
    weir::limiter_stats stats() const override { return limiter_.stats(); }

protected:
    Limiter limiter_;
};

/// A rate that an engine keeps, for all proxies of a name.
template <class Policy>
class engine_rule final : public shared_rule<weir::basic_shared_limiter<Policy, net::executor>> {
    using base = shared_rule<weir::basic_shared_limiter<Policy, net::executor>>;
    using base::limiter_;

public:
    engine_rule(rule_text const& t, net::executor const& ex, std::shared_ptr<weir::engine> const& e,
                options const& o, weir::queue_options const& queue)
        : base(t, ex, e, o.name, o.shared.options, queue) {
        watch();
    }

    weir::duration round_trip() const override { return limiter_.options().deadline; }
    std::string more() const override { return told_of(limiter_.shared_stats()); }

private:
    // Says when something else decides than before.
    void watch() {
        limiter_.async_wait_mode_change(
            [this](net::error_code ec, weir::mode_change const& change) {
                if (ec)
                    return;
                tell_of(change, limiter_.last_failure());
                watch();
            });
    }
};

/// A rule that each client has for itself. Clients do not wait for each other.
template <class Policy>
class client_rule final : public rule {
public:
    template <class... Arguments>
    explicit client_rule(rule_text const& t, Arguments const&... arguments)
        : rule(t), limiter_(arguments...) {}

    weir::permit try_enter(std::uint64_t who) override { return limiter_.try_enter(who); }
    net::task<verdict> enter(std::uint64_t who, net::connection& client,
                             weir::duration patience) override {
        return wait_turn(client, [this, who, patience](on_turn handler) {
            limiter_.async_enter(who, patience, std::move(handler));
        });
    }
    weir::limiter_stats stats() const override { return limiter_.stats().total; }
    std::optional<std::uint64_t> clients() const override { return limiter_.stats().keys; }

private:
    weir::basic_keyed<std::uint64_t, Policy, net::executor> limiter_;
};

}  // namespace proxy
