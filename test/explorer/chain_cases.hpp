#pragma once

#include <weir/queue_options.hpp>

#include "chain_visit.hpp"
#include "invariant.hpp"
#include "ledger.hpp"
#include "order_book.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace explorer {

/// The state of one limiter.
struct chained_limiter {
    enum class doors : std::uint8_t { open, no_newcomers, shut };

    policy which = policy::seats;
    int core = 0;
    std::unique_ptr<ledger> book;
    order_book line;  // of the plain requests that wait
    doors door = doors::open;

    [[nodiscard]] bool fits(amount n, time_point now) const { return n == 0 || book->fits(n, now); }
};

/// The possible states of the waiting chains, as `chain_oracle` describes them.
class chain_cases {
public:
    // The position of a waiting request.
    struct place {
        static constexpr int all = chained_limiters;

        visit* who = nullptr;
        int where = 0;  // a limiter, or all: it reserves
        int passed = 0;
        bool is_overdue = false;
        time_point reserves_until{};

        friend auto operator<=>(place const&, place const&) = default;
    };
    struct departure {
        visit* who = nullptr;
        time_point at{};
        friend auto operator<=>(departure const&, departure const&) = default;
    };
    struct possibility {
        std::vector<place> waiting;   // in order of arrival
        std::vector<departure> left;  // rejected, and not yet counted
        friend auto operator<=>(possibility const&, possibility const&) = default;
    };

    explicit chain_cases(std::vector<chained_limiter> const& limiters) : limiters_(limiters) {}

    // Questions about one case.

    [[nodiscard]] static bool stands(place const& p, int limiter);
    /// The number of requests that are there.
    [[nodiscard]] static std::uint64_t size(possibility const& c, int limiter);
    [[nodiscard]] bool barred_by_chains(possibility const& c, visit const& v, int limiter) const;
    [[nodiscard]] bool barred_by_plain(visit const& v, int limiter, time_point now) const;
    [[nodiscard]] bool barred_by_rank(possibility const& c, visit const& v, int limiter,
                                      time_point now) const;
    [[nodiscard]] bool barred(possibility const& c, visit const& v, int limiter,
                              time_point now) const;
    [[nodiscard]] bool lets(possibility const& c, visit const& v, int limiter,
                            time_point now) const;
    [[nodiscard]] static bool may_reserve(possibility const& c, place const& p);

    // Events.

    /// Applies the possible changes of chains in a section with these locks: they move, and leave if `may_leave(v)`.
    void settle(unsigned cores, time_point now, std::function<bool(visit const&)> const& may_leave);
    /// Begins a wait, at a limiter for which `may_stand(case, limiter)` is true.
    template <class F>
    void begins(visit& v, F may_stand) {
        std::set<possibility> next;
        for (auto const& c : all_) {
            for (auto const i : v.named) {
                if (!may_stand(c, i))
                    continue;
                auto one = c;
                one.waiting.push_back({.who = &v, .where = i});
                next.insert(std::move(one));
            }
        }
        all_ = std::move(next);
    }
    /// Grants the request.
    void ends(visit const& v);
    /// Rejects the request.
    void leaves(visit& v, time_point now);
    /// Returns and forgets the requests that have left in all cases alike.
    [[nodiscard]] std::vector<departure> take_departures();

    /// Drops the cases for which `wrong` returns a reason.
    template <class Wrong>
    void drop(std::string_view invariant, std::string const& what, Wrong wrong) {
        std::string last;
        for (auto it = all_.begin(); it != all_.end();) {
            auto const why = wrong(*it);
            if (why)
                last = *why + text(*it);
            it = why ? all_.erase(it) : std::next(it);
        }
        if (all_.empty())
            violated(invariant, fmt::format("{}: {}", what, last));
    }

    [[nodiscard]] std::set<possibility> const& all() const noexcept { return all_; }

private:
    template <class Change>
    void change_each(Change change);
    [[nodiscard]] static std::string text(possibility const& c);

    std::vector<chained_limiter> const& limiters_;
    std::set<possibility> all_{possibility()};
};

/// The cores of the limiters that it names, as bits.
[[nodiscard]] unsigned locks_of(visit const& v, std::vector<chained_limiter> const& limiters);

}  // namespace explorer
