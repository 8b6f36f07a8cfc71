#pragma once

#include "invariant.hpp"
#include "ledger.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <set>

namespace explorer {

/// A debt, and the permits saved while there was none, in ticks of a 1024th of a nanosecond: the policies also round
/// floats to this unit. With powers of two for `limit` and `time` the floats on both sides are exact, so that both
/// round alike.
class debt_ledger final : public ledger {
public:
    debt_ledger(rule in_force, bool warms_up, time_point now)
        : ledger(in_force), warms_up_(warms_up), paid_(ticks(now)), saved_(warms_up ? full() : 0) {}

    amount capacity() const noexcept override { return weir::max_amount; }
    bool fits(amount, time_point now) const override { return paid_ <= ticks(now); }
    amount remaining(time_point now) const override {
        amount granted = 0;
        for (auto then = *this; then.fits(1, now); ++granted)
            then.took(1, 0, now);
        return granted;
    }

    void took(amount n, ticket t, time_point now) override {
        rest(now, ticks_of_a_nanosecond);
        auto const used = std::min(length(n), saved_);
        auto const unsaved = length(n) - used;
        paid_ += price(saved_ - used, saved_) + unsaved;
        saved_ -= used;
        unsaved_[t].insert(permits(unsaved));
    }
    void merged(ticket a, ticket b, ticket both, amount) override {
        unsaved_[both].insert(unsaved_of(a) + unsaved_of(b));
    }
    void refunded(amount n, ticket t, time_point now) override {
        rest(now, ticks_of_a_nanosecond);
        auto const unsaved = std::min(length(n), length_of(unsaved_of(t)));
        auto const back = std::min(length(n) - unsaved, full() - saved_);
        paid_ -= unsaved + price(saved_, saved_ + back);
        saved_ += back;
    }
    void configured(rule next, time_point now) override {
        rest(now, 1);
        auto const part = static_cast<double>(saved_) / static_cast<double>(full());
        rule_ = next;
        saved_ = length_of(part * static_cast<double>(rule_.limit));
    }

private:
    static constexpr std::int64_t ticks_of_a_nanosecond = 1024;

    debt_ledger(debt_ledger const& other)
        : ledger(other.rule_),
          warms_up_(other.warms_up_),
          paid_(other.paid_),
          saved_(other.saved_),
          unsaved_(other.unsaved_) {}

    [[nodiscard]] static std::int64_t ticks(time_point t) {
        return t.time_since_epoch().count() * ticks_of_a_nanosecond;
    }
    [[nodiscard]] std::int64_t length(amount n) const {
        return n * rule_.time.count() * ticks_of_a_nanosecond;
    }
    [[nodiscard]] std::int64_t length_of(double permits) const {
        return static_cast<std::int64_t>(std::nearbyint(permits * static_cast<double>(length(1))));
    }
    [[nodiscard]] double permits(std::int64_t t) const {
        return static_cast<double>(t) / static_cast<double>(length(1));
    }
    [[nodiscard]] std::int64_t full() const { return length(rule_.limit); }

    // Saves the time since the debt was paid, if it is at least `least`: less than a nanosecond between two grants is
    // not idle time but an effect of rounding.
    void rest(time_point now, std::int64_t least) {
        auto const idle = ticks(now) - paid_;
        if (idle < least)
            return;
        saved_ = std::min(saved_ + idle, full());
        paid_ = ticks(now);
    }

    // Returns how many of the permits had not been saved. A ticket may belong to several grants, if the number is the
    // same for all of them.
    [[nodiscard]] double unsaved_of(ticket t) const {
        auto const& noted = unsaved_.at(t);
        if (noted.size() != 1)
            violated(invariant::conserved, "a ticket stands for grants that differ");
        return *noted.begin();
    }

    // Returns the price of the permits saved from `low` to `high`.
    [[nodiscard]] std::int64_t price(std::int64_t low, std::int64_t high) const {
        return area(high) - area(low);
    }
    // The area below Guava's line: a permit costs 1 up to half of `limit`; from there the cost rises linearly to the
    // cold factor at `limit`.
    [[nodiscard]] std::int64_t area(std::int64_t saved) const {
        if (!warms_up_)
            return 0;
        auto const half = static_cast<double>(rule_.limit) / 2;
        auto const above = std::max(permits(saved) - half, 0.);
        auto const dearer = (cold_factor - 1) * above / half;
        return length_of(permits(saved) + above * dearer / 2);
    }

    std::unique_ptr<ledger> copy() const override {
        return std::unique_ptr<ledger>(new debt_ledger(*this));
    }
    time_point alone(amount, time_point now) const override {
        if (paid_ <= ticks(now))
            return now;
        return time_point(duration((paid_ + ticks_of_a_nanosecond - 1) / ticks_of_a_nanosecond));
    }

    bool warms_up_;
    std::int64_t paid_;                           // when the debt is paid
    std::int64_t saved_;                          // permits, as the time that they take
    std::map<ticket, std::set<double>> unsaved_;  // permits
};

}  // namespace explorer
