#pragma once

#include <weir/chain.hpp>
#include <weir/error.hpp>
#include <weir/outcome.hpp>
#include <weir/permit.hpp>
#include <weir/time.hpp>

#include "limit.hpp"

#include <boost/container/small_vector.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <ranges>
#include <utility>
#include <vector>

namespace limiting {

/// The largest number of limits of a gate in a configuration: those of a route, and the seats of an upstream.
inline constexpr std::size_t usual_limits = config::route::most_limits + 1;

/// What a request got at the gate.
template <class World>
struct entry {
    explicit entry(typename World::asking const& a) noexcept : who(a) {}

    typename World::asking who;

    // A key for each limit, in the order of the gate, and a permit of each limit that was passed.
    boost::container::small_vector<std::uint64_t, usual_limits> keys;
    boost::container::small_vector<weir::permit, 4> permits;
    std::size_t passed = 0;

    weir::duration patience{};  // what is left of it
    weir::duration waited{};    // all in all

    /// Which limit has rejected it, and why, if one has.
    struct rejection {
        typename World::limit* by = nullptr;
        std::size_t number = 0;  // its place at the gate
        weir::error_code ec;
        std::optional<weir::duration> retry_after;
    };
    rejection rejected;

    /// The request has not gone on after all: as if it had never been let in.
    void give_back() noexcept {
        for (auto& permit : permits | std::views::reverse)
            permit.refund();
    }
    /// It leaves, and is as it was before it came.
    void reset() noexcept {
        keys.clear();
        permits.clear();
        passed = 0;
        waited = {};
        rejected = {};
    }
};

/// When somebody who was rejected is told to come back: rounded up, so that nobody comes too early; after a second where
/// nobody can tell.
[[nodiscard]] inline std::chrono::seconds come_back_after(
    std::optional<weir::duration> retry_after) noexcept {
    using std::chrono::seconds;
    return std::max(seconds(1), std::chrono::ceil<seconds>(retry_after.value_or(seconds(1))));
}

/// The limits in front of one route. Any thread may use it, if any may use the limits.
///
/// Those that can be are one chain: a request takes all of them or none, and while it waits it holds nothing. Then
/// follow, one after the other, while it holds what it has got, those that no chain can have: a limit whose queue has an
/// order, and a limit of a store. What it got is given back if one of these rejects it.
///
/// Last are dry runs, which are asked when the request goes on, and which never hold it up.
///
/// A request has as much patience, for all its waits together, as the limit with the least.
template <class World>
class gate {
public:
    using limit_type = typename World::limit;
    using entry_type = entry<World>;
    template <class Permit>
    using handler = typename World::template handler<Permit>;

    /// In the order in which they are named. Their permits need not come home before the gate ends.
    explicit gate(std::vector<std::shared_ptr<limit_type>> const& limits) {
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
        bool has_patience = false;
        for (std::size_t i = 0; i != limits_.size(); ++i) {
            adaptive_ = adaptive_ || limits_[i]->is_adaptive();
            auto const& own = limits_[i]->configuration().queue.patience;
            if (i >= strict_ || !own.is_set())
                continue;
            patience_ = std::min(patience_, own.length_or(weir::forever));
            has_patience = true;
        }
        // The seats of an upstream's servers have none of their own.
        if (!has_patience && strict_ > 0)
            patience_ = config::limit::default_patience;
    }

    /// Lets a request in, or rejects it, if nobody has to wait for that. Otherwise false: it is to wait, again and again,
    /// until it is in or rejected.
    [[nodiscard]] bool enter_at_once(entry_type& e) const {
        e.patience = patience_;
        for (auto const& l : limits_)
            e.keys.push_back(l->key_of(e.who));
        if (chained_ > 0 && !try_chain(e))
            return !waits();
        while (e.passed < strict_) {
            weir::error_code ec;
            auto permit = limits_[e.passed]->try_enter(e.who, e.keys[e.passed], ec);
            if (!permit) {
                if (!waits())
                    reject(e, e.passed, ec, permit.retry_after());
                return !waits();
            }
            take(e, std::move(permit));
        }
        pass_dry_runs(e);
        return true;
    }

    /// Whether it has passed all that can hold it up.
    [[nodiscard]] bool is_in(entry_type const& e) const noexcept { return e.passed == strict_; }

    /// For what a request waits that is not in yet: for the chain, by `wait_for_chain`; or for `next` alone.
    [[nodiscard]] bool waits_for_chain(entry_type const& e) const noexcept {
        return e.passed < chained_;
    }
    void wait_for_chain(entry_type const& e, handler<weir::any_chain_permit> h) const {
        chain_for(e).async_enter(e.patience, std::move(h));
    }
    [[nodiscard]] limit_type& next(entry_type const& e) const noexcept {
        return *limits_[e.passed];
    }

    /// What a handler is told, in the end: false if that rejects the request.
    [[nodiscard]] bool decide(entry_type& e, weir::error_code ec,
                              weir::any_chain_permit& permit) const {
        if (ec) {
            reject(e, rejected_by(permit), ec, permit.retry_after());
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

    /// How it went at the service, by which adaptive seats are moved: the request needs such a seat no more.
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

    /// In the order in which a request passes them: its permits are in the same.
    [[nodiscard]] std::vector<std::shared_ptr<limit_type>> const& all() const noexcept {
        return limits_;
    }
    /// How many of them are not dry runs.
    [[nodiscard]] std::size_t strict() const noexcept { return strict_; }

private:
    // What comes first is what a request waits for while it holds nothing.
    [[nodiscard]] static int rank(limit_type const& l) {
        if (l.configuration().dry_run)
            return 3;
        if (l.is_chained())
            return 0;
        return l.configuration().store.empty() ? 1 : 2;
    }

    [[nodiscard]] bool waits() const noexcept { return patience_ > weir::duration::zero(); }

    [[nodiscard]] weir::basic_any_chain<typename World::executor, usual_limits> chain_for(
        entry_type const& e) const {
        weir::basic_any_chain<typename World::executor, usual_limits> door;
        for (std::size_t i = 0; i != chained_; ++i)
            door.add(limits_[i]->link(e.keys[i]));
        return door;
    }
    [[nodiscard]] bool try_chain(entry_type& e) const {
        weir::error_code ec;
        auto permit = chain_for(e).try_enter(ec);
        if (!permit) {
            if (!waits())
                reject(e, rejected_by(permit), ec, permit.retry_after());
            return false;
        }
        take_chain(e, permit);
        return true;
    }
    void take_chain(entry_type& e, weir::any_chain_permit& permit) const {
        for (std::size_t i = 0; i != chained_; ++i)
            take(e, std::move(permit[i]));
    }
    // Allocates at most once, and not at all for a request that the first limit rejects.
    void take(entry_type& e, weir::permit permit) const {
        e.permits.reserve(limits_.size());
        e.permits.push_back(std::move(permit));
        ++e.passed;
    }
    [[nodiscard]] static std::size_t rejected_by(weir::any_chain_permit const& permit) {
        return permit.rejected_by().value_or(0);
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
    // What they reject they have counted.
    void pass_dry_runs(entry_type& e) const {
        weir::error_code ignored;
        e.permits.reserve(limits_.size());
        for (auto i = strict_; i < limits_.size(); ++i)
            e.permits.push_back(limits_[i]->try_enter(e.who, e.keys[i], ignored));
    }

    std::vector<std::shared_ptr<limit_type>> limits_;  // chained, alone, dry runs
    std::size_t chained_ = 0;                          // how many are a chain; 0 or more than 1
    std::size_t strict_ = 0;                           // how many are not dry runs
    bool adaptive_ = false;
    weir::duration patience_ = weir::forever;
};

}  // namespace limiting
