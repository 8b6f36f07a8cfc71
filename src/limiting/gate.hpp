#pragma once

#include <weir/amount.hpp>
#include <weir/chain.hpp>
#include <weir/error.hpp>
#include <weir/outcome.hpp>
#include <weir/permit.hpp>
#include <weir/time.hpp>

#include "entry.hpp"
#include "limit.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace limiting {

/// The Retry-After of a rejection: rounded up, so that clients do not retry too early, and at least 1 s; 1 s if the
/// time is unknown.
[[nodiscard]] inline std::chrono::seconds come_back_after(
    std::optional<weir::duration> retry_after) noexcept {
    using std::chrono::seconds;
    return std::max(seconds(1), std::chrono::ceil<seconds>(retry_after.value_or(seconds(1))));
}

/// The limits of one route. Any thread may use the gate if any thread may use its limits.
///
/// A request passes the limits in this order:
/// 1. Limits that can be chained form one chain. A request gets permits from all of them or none, and holds none while
///    it waits.
/// 2. Other limits follow one by one: limits with the order `lifo`, `adaptive_lifo` or `codel`, then limits of a store.
///    The request keeps its permits while it waits. If one of these limits rejects it, the gate refunds its permits.
/// 3. Dry runs decide last, when all other limits have granted the request. They never delay it.
///
/// A limit with a cost takes as many permits as the request costs, or an estimate until that is known: see `settle`.
///
/// The patience of a request covers all its waits together. It is the shortest patience of the limits, without dry
/// runs.
template <class World>
class gate {
public:
    using limit_type = typename World::limit;
    using entry_type = entry<World>;
    template <class Permit>
    using handler = typename World::template handler<Permit>;

    /// The costs of requests in limits, by name, which replace the costs of these limits.
    using costs = std::vector<std::pair<std::string, weir::amount>>;

    /// Creates a gate. In each group, the limits keep the order of `limits`. Permits may outlive the gate.
    explicit gate(std::vector<std::shared_ptr<limit_type>> const& limits,
                  costs const& replaced = {}) {
        for (int const wanted : {0, 1, 2, 3}) {
            for (auto const& l : limits)
                if (rank(*l) == wanted)
                    limits_.push_back(l);
            if (wanted == 0)
                chained_ = limits_.size();
            if (wanted == 2)
                strict_ = limits_.size();
        }
        if (chained_ == 1)
            chained_ = 0;
        for (auto const& l : limits_) {
            selections_.push_back(l->selection());
            terms_.push_back(terms_of(l->configuration(), replaced));
            has_terms_ = has_terms_ || terms_.back().tree || terms_.back().cost != config::cost();
            settles_ = settles_ || terms_.back().settles();
        }
        bool has_patience = false;
        for (std::size_t i = 0; i != limits_.size(); ++i) {
            adaptive_ = adaptive_ || limits_[i]->is_adaptive();
            has_rates_ = has_rates_ || is_rate(i);
            rates_wait_ =
                rates_wait_ || (is_rate(i) && limits_[i]->configuration().queue.max_waiting != 0);
            auto const& own = limits_[i]->configuration().queue.patience;
            if (i >= strict_ || !own.is_set())
                continue;
            patience_ = std::min(patience_, own.length_or(weir::forever));
            has_patience = true;
        }
        // The seats of an upstream's servers have no patience.
        if (!has_patience && strict_ > 0)
            patience_ = config::limit::default_patience;
    }

    /// Grants or rejects the request if this needs no wait, and returns true. Otherwise returns false: the request must
    /// wait, perhaps several times, until it passed all limits or is rejected.
    [[nodiscard]] bool enter_at_once(entry_type& e) const {
        if (e.at.empty())
            select(e);
        pass_unlimited(e);
        if (waits_for_chain(e) && !try_chain(e))
            return e.rejected.by != nullptr;
        while (e.passed < strict_) {
            auto& next = *limits_[e.passed];
            auto const& at = e.at[e.passed];
            weir::error_code ec;
            auto permit =
                waits() ? next.enter_at_once(e.who, at, ec) : next.try_enter(e.who, at, ec);
            if (!permit) {
                if (ec)
                    reject(e, e.passed, ec, permit.retry_after());
                return e.rejected.by != nullptr;
            }
            take(e, std::move(permit));
        }
        pass_dry_runs(e);
        return true;
    }

    /// Whether the request passed all limits that can delay it.
    [[nodiscard]] bool is_in(entry_type const& e) const noexcept { return e.passed == strict_; }

    /// Passes the next limits that do not limit the request. A chain is passed as a whole.
    void pass_unlimited(entry_type& e) const {
        auto next = e.passed;
        while (next != strict_ && e.at[next].is_unlimited)
            ++next;
        if (next == e.passed || next < chained_)
            return;
        e.permits.reserve(limits_.size());
        e.permits.resize(next);
        e.passed = next;
    }

    /// Whether a request that is not in yet waits for the chain, with `wait_for_chain`. Otherwise it waits for `next`.
    [[nodiscard]] bool waits_for_chain(entry_type const& e) const noexcept {
        return e.passed < chained_;
    }
    void wait_for_chain(entry_type const& e, handler<weir::any_chain_permit> h) const {
        chain_for(e).async_enter(e.patience, std::move(h));
    }
    [[nodiscard]] limit_type& next(entry_type const& e) const noexcept {
        return *limits_[e.passed];
    }

    /// Applies the result that a handler received. Returns false if the request is rejected.
    [[nodiscard]] bool decide(entry_type& e, weir::error_code ec,
                              weir::any_chain_permit& permit) const {
        if (ec) {
            reject(e, rejected_by(e, permit), ec, permit.retry_after());
            return false;
        }
        note_wait(e, permit.waited());
        take_chain(e, permit);
        if (is_in(e))
            pass_dry_runs(e);
        return true;
    }
    [[nodiscard]] bool decide(entry_type& e, weir::error_code ec, weir::permit& permit) const {
        if (ec) {
            reject(e, e.passed, ec, permit.retry_after());
            return false;
        }
        note_wait(e, permit.waited());
        take(e, std::move(permit));
        if (is_in(e))
            pass_dry_runs(e);
        return true;
    }

    /// Reports the outcome at the upstream to adaptive seats, which adjust to it, and releases the request's adaptive
    /// seats.
    void report(entry_type& e, weir::outcome how) const noexcept {
        if (!adaptive_)
            return;
        for (std::size_t i = 0; i != limits_.size(); ++i) {
            if (!limits_[i]->is_adaptive())
                continue;
            e.permits[i].report(how);
            e.permits[i].leave();
        }
    }

    /// Corrects the permits of a granted request by its response with this status, 0 without a response. A penalty
    /// counts an offence at once. Another limit that does not count the status gets its permits back. From another
    /// limit the request takes more permits, or gives some back, so that it has as many as `known(config::cost)`
    /// returns, if that is known. Call it each time that more is known.
    template <class Known>
    void settle(entry_type& e, unsigned status, Known known) const noexcept {
        if (!settles_)
            return;
        for (std::size_t i = 0; i != e.permits.size(); ++i) {
            if (!e.permits[i])
                continue;
            if (terms_[i].punishes)
                end_trial(e.permits[i], terms_[i].counts(status));
            else if (!terms_[i].counts(status))
                correct(e.permits[i], 0);
            else if (std::optional<weir::amount> const n = known(terms_[i].cost))
                correct(e.permits[i], *n);
        }
    }
    /// Counts the rejection of the request, with a response of this status, as an offence in each penalty that counts
    /// the status. The penalty that rejected the request does not count it.
    void punish(entry_type const& e, unsigned status) const {
        for (std::size_t i = 0; i != limits_.size(); ++i) {
            if (!terms_[i].punishes || !terms_[i].counts(status) || e.at[i].is_unlimited ||
                i == e.rejected.number)
                continue;
            weir::error_code ignored;
            if (auto permit = limits_[i]->try_enter(e.who, e.at[i], ignored))
                permit.report(weir::outcome::dropped);
        }
    }
    /// Whether only the response decides what limit number `i` counts.
    [[nodiscard]] bool is_by_response(std::size_t i) const noexcept {
        return !terms_[i].count.empty() || config::is_of_response(terms_[i].cost);
    }

    /// Releases the seats of a request before its end.
    void free_seats(entry_type& e) const noexcept {
        for (std::size_t i = 0; i != e.permits.size(); ++i) {
            if (!limits_[i]->has_seats())
                continue;
            e.permits[i].report(weir::outcome::success);
            e.permits[i].leave();
        }
    }

    /// The limits, in the order in which a request passes them. Its permits have the same order.
    [[nodiscard]] std::vector<std::shared_ptr<limit_type>> const& all() const noexcept {
        return limits_;
    }
    /// The number of limits that are not dry runs.
    [[nodiscard]] std::size_t strict() const noexcept { return strict_; }

protected:
    using chain_type = weir::basic_any_chain<typename World::executor, usual_limits>;
    using link_type = typename limit_type::link_type;

    // Finds the limiters of the request. `enter_at_once` does so too.
    void select(entry_type& e) const {
        e.patience = patience_;
        for (auto const& s : selections_)
            e.at.push_back(s->of(e.who));
        if (has_terms_)
            apply_terms(e);
    }

    // Whether the gate has rates that can be asked with `ask_rates`: rates that could be in a chain.
    [[nodiscard]] bool has_rates() const noexcept { return has_rates_; }
    // Asks the rates that could be in a chain whether they can grant the request within its patience. None of them
    // grants it: `never`, a limiter that grants nothing and lets no request wait, is part of their chain. So a rate
    // either rejects the request, finally, or counts nothing.
    void ask_rates(entry_type const& e, link_type never, handler<weir::any_chain_permit> h) const {
        chain_type chain;
        // The first limiter decides if no other one has a reason.
        chain.add(std::move(never));
        for (std::size_t i = 0; i != strict_; ++i)
            if (is_asked(e, i))
                chain.add(limits_[i]->link(e.who, e.at[i]));
        chain.async_enter(rates_wait_ ? e.patience : weir::duration::zero(), std::move(h));
    }
    // Applies the result of `ask_rates`. Returns false if a rate rejected the request.
    [[nodiscard]] bool decide_rates(entry_type& e, weir::error_code ec,
                                    weir::any_chain_permit const& permit) const {
        auto const link = permit.rejected_by().value_or(0);
        if (link == 0)
            return true;
        reject(e, number_of(link - 1, [&](std::size_t i) { return is_asked(e, i); }), ec,
               permit.retry_after());
        return false;
    }

    // If the memory for more permits is lacking, the estimate stays.
    static void correct(weir::permit& p, weir::amount n) noexcept {
        try {
            p.settle(n);
        } catch (std::exception const&) {}
    }

private:
    // The part of a request that a limit counts, and the nodes of its tree.
    struct terms {
        config::cost cost;
        std::vector<config::status_range> count;
        bool punishes;
        std::optional<weir::policy::tree_plan> tree;

        [[nodiscard]] weir::amount cost_of(typename World::request_info const& who) const {
            return cost.what == config::cost::kind::number
                       ? cost.number
                       : World::cost_of(cost, who);
        }
        [[nodiscard]] bool counts(unsigned status) const noexcept {
            return count.empty() || std::ranges::any_of(count, [status](auto const& r) {
                       return r.first <= status && status <= r.last;
                   });
        }
        [[nodiscard]] bool settles() const noexcept {
            return !count.empty() || cost.what == config::cost::kind::bytes ||
                   config::is_of_response(cost);
        }
    };
    static terms terms_of(config::limit const& l, costs const& replaced) {
        auto const found = std::ranges::find(replaced, l.name, &costs::value_type::first);
        return {found == replaced.end() ? l.cost : config::cost{.number = found->second}, l.count,
                config::is_penalty(l.rule),
                l.tree ? std::optional<weir::policy::tree_plan>(*l.tree) : std::nullopt};
    }
    static void end_trial(weir::permit& p, bool is_offence) noexcept {
        p.report(is_offence ? weir::outcome::dropped : weir::outcome::success);
        p.leave();
    }

    // The chain comes first, so that requests wait for it without permits.
    [[nodiscard]] static int rank(limit_type const& l) {
        if (l.configuration().dry_run)
            return 3;
        if (l.is_chained())
            return 0;
        return l.configuration().store.empty() ? 1 : 2;
    }

    void apply_terms(entry_type& e) const {
        for (std::size_t i = 0; i != terms_.size(); ++i) {
            e.at[i].cost = terms_[i].cost_of(e.who);
            if (auto const& tree = terms_[i].tree)
                e.at[i].by = node_of(*tree, limits_[i]->names_of(e.who));
        }
    }

    [[nodiscard]] bool waits() const noexcept { return patience_ > weir::duration::zero(); }

    [[nodiscard]] bool is_rate(std::size_t i) const noexcept {
        return i < strict_ && limits_[i]->is_chained() && !limits_[i]->has_seats();
    }
    [[nodiscard]] bool is_asked(entry_type const& e, std::size_t i) const noexcept {
        return is_rate(i) && !e.at[i].is_unlimited;
    }

    [[nodiscard]] chain_type chain_for(entry_type const& e) const {
        chain_type chain;
        for (std::size_t i = 0; i != chained_; ++i)
            if (!e.at[i].is_unlimited)
                chain.add(limits_[i]->link(e.who, e.at[i]));
        return chain;
    }
    [[nodiscard]] bool try_chain(entry_type& e) const {
        weir::error_code ec;
        auto chain = chain_for(e);
        auto permit = waits() ? chain.enter_at_once(ec) : chain.try_enter(ec);
        if (!permit) {
            if (ec)
                reject(e, rejected_by(e, permit), ec, permit.retry_after());
            return false;
        }
        take_chain(e, permit);
        return true;
    }
    void take_chain(entry_type& e, weir::any_chain_permit& permit) const {
        e.permits.reserve(limits_.size());
        std::size_t link = 0;
        for (std::size_t i = 0; i != chained_; ++i)
            e.permits.push_back(e.at[i].is_unlimited ? weir::permit() : std::move(permit[link++]));
        e.passed = chained_;
        pass_unlimited(e);
    }
    // Allocates at most once, and never for a request that the first limit rejects.
    void take(entry_type& e, weir::permit permit) const {
        e.permits.reserve(limits_.size());
        e.permits.push_back(std::move(permit));
        ++e.passed;
        pass_unlimited(e);
    }
    // The number of the limit whose link rejected the request.
    [[nodiscard]] std::size_t rejected_by(entry_type const& e,
                                          weir::any_chain_permit const& permit) const {
        return number_of(permit.rejected_by().value_or(0),
                         [&](std::size_t i) { return !e.at[i].is_unlimited; });
    }
    // The number of the limit that is link number `link` of a chain of the limits that are `in`.
    template <class In>
    [[nodiscard]] static std::size_t number_of(std::size_t link, In in) {
        std::size_t i = 0;
        while (!in(i) || link-- != 0)
            ++i;
        return i;
    }

    void reject(entry_type& e, std::size_t by, weir::error_code ec,
                std::optional<weir::duration> retry_after) const {
        e.rejected = {limits_[by].get(), by, ec, retry_after};
        e.give_back();
    }
    static void note_wait(entry_type& e, weir::duration waited) noexcept {
        e.waited += waited;
        e.patience = std::max(e.patience - waited, weir::duration::zero());
    }
    // Each dry run counts its decision itself.
    void pass_dry_runs(entry_type& e) const {
        weir::error_code ignored;
        e.permits.reserve(limits_.size());
        for (auto i = strict_; i < limits_.size(); ++i)
            e.permits.push_back(e.at[i].is_unlimited
                                    ? weir::permit()
                                    : limits_[i]->try_enter(e.who, e.at[i], ignored));
    }

    std::vector<std::shared_ptr<limit_type>> limits_;  // chained, single, dry runs
    std::vector<std::shared_ptr<typename limit_type::selection_type const>> selections_;
    std::size_t chained_ = 0;   // limits in the chain; 0 or more than 1
    std::size_t strict_ = 0;    // limits that are not dry runs
    std::vector<terms> terms_;  // of each limit
    bool adaptive_ = false;
    bool has_terms_ = false;  // a limit has another cost than 1, or a tree
    bool settles_ = false;    // the permits of a limit may change after the grant
    bool has_rates_ = false;
    bool rates_wait_ = false;  // a request may wait in the queue of a rate
    weir::duration patience_ = weir::forever;
};

}  // namespace limiting
