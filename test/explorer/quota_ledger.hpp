#pragma once

#include "invariant.hpp"
#include "ledger.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>

namespace explorer {

/// The quota of a server by its statements. A statement holds until its reset: until then permits are granted up to the
/// stated number, less those in use that the server has not counted. After it, and before the first one, at most `limit`
/// permits that were granted in this time are in use; a larger request is granted if no other such permit is.
///
/// Statements with a reset within the slack are about the same window, and only lower the number. A statement with an
/// earlier reset is ignored. One with a later reset begins the next window if the present one ends within the slack, and
/// otherwise lowers the number.
class quota_ledger final : public ledger {
public:
    explicit quota_ledger(rule in_force) : ledger(in_force) {}

    bool fits(amount n, time_point now) const override {
        auto const s = at(now);
        return n <= room(s) || (!s.known && s.probes == 0);
    }
    amount capacity() const noexcept override { return weir::max_amount; }
    amount remaining(time_point now) const override { return std::max<amount>(room(at(now)), 0); }
    std::optional<amount> in_use() const override { return s_.in_use; }

    void took(amount n, ticket t, time_point now) override {
        s_ = at(now);
        s_.in_use += n;
        (s_.known ? s_.left : s_.probes) += s_.known ? -n : n;
        if (forecasts_)
            return;
        auto const [it, is_new] = period_of_.emplace(t, s_.period);
        if (!is_new && it->second != s_.period)
            violated(invariant::conserved, "a ticket stands for grants that differ");
    }
    void came_home(amount n, ticket t, time_point now) override {
        s_ = at(now);
        s_.in_use -= n;
        if (!s_.known && period_of_.at(t) == s_.period)
            s_.probes = std::max<amount>(s_.probes - n, 0);
    }
    void refunded(amount n, ticket t, time_point now) override {
        came_home(n, t, now);
        if (s_.known)
            s_.left += n;
    }
    // All permits of a ticket are of one time: others join the later one, of which the known permits leave first.
    void merged(ticket a, ticket b, ticket both, amount n) override {
        auto const into = period_of_.at(a);
        auto const from = period_of_.at(b);
        if (!s_.known && into == s_.period && from != s_.period)
            s_.probes += n;
        period_of_[both] = std::max(into, from);
    }
    void configured(rule next, time_point now) override {
        s_ = at(now);
        rule_ = next;
    }
    void stated(statement const& said, time_point now) override {
        s_ = at(now);
        auto const reset = now + said.reset;
        auto const left = said.remaining + said.counted - s_.in_use;
        if (said.reset == duration(0)) {
            if (s_.known)
                begin(s_, false);
        } else if (!s_.known || (reset > s_.reset + slack && s_.reset <= now + slack)) {
            begin(s_, true);
            s_.reset = reset;
            s_.left = left;
        } else if (reset > s_.reset + slack) {
            s_.left = std::min(s_.left, left);
        } else if (reset >= s_.reset - slack) {
            s_.left = std::min(s_.left, left);
            s_.reset = std::max(s_.reset, reset);
        }
    }

private:
    static constexpr duration slack = std::chrono::milliseconds(1500);

    struct state {
        amount in_use = 0;
        int period = 0;  // a time in which the quota is known for one window, or unknown
        bool known = false;
        time_point reset{};
        amount left = 0;    // if known
        amount probes = 0;  // if unknown: in use, of this time
    };

    static void begin(state& s, bool known) {
        s.known = known;
        s.probes = 0;
        ++s.period;
    }
    [[nodiscard]] state at(time_point now) const {
        auto s = s_;
        if (s.known && now >= s.reset)
            begin(s, false);
        return s;
    }
    [[nodiscard]] amount room(state const& s) const {
        return s.known ? s.left : rule_.limit - s.probes;
    }
    std::unique_ptr<ledger> copy() const override {
        auto twin = std::make_unique<quota_ledger>(rule_);
        twin->s_ = s_;
        twin->forecasts_ = true;
        return twin;
    }
    time_point alone(amount n, time_point now) const override {
        if (fits(n, now))
            return now;
        return at(now).known ? s_.reset : weir::unknown;
    }

    state s_;
    std::map<ticket, int> period_of_;
    bool forecasts_ = false;  // a copy: the policy does not know its tickets
};

}  // namespace explorer
