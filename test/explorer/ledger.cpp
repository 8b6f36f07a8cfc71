#include "ledger.hpp"

#include "adaptive_ledger.hpp"
#include "calendar_ledger.hpp"
#include "debt_ledger.hpp"
#include "quota_ledger.hpp"

#include <algorithm>
#include <cstddef>

namespace explorer {
namespace {

class seat_ledger final : public ledger {
public:
    explicit seat_ledger(rule in_force) : ledger(in_force) {}

    amount remaining(time_point) const override {
        return std::max<amount>(rule_.limit - in_use_, 0);
    }
    std::optional<amount> in_use() const override { return in_use_; }
    void took(amount n, ticket, time_point) override { in_use_ += n; }
    void came_home(amount n, ticket, time_point) override { in_use_ -= n; }
    void refunded(amount n, ticket, time_point) override { in_use_ -= n; }
    void configured(rule next, time_point) override { rule_ = next; }

private:
    std::unique_ptr<ledger> copy() const override {
        auto twin = std::make_unique<seat_ledger>(rule_);
        twin->in_use_ = in_use_;
        return twin;
    }
    time_point alone(amount n, time_point now) const override {
        return fits(n, now) ? now : weir::unknown;
    }

    amount in_use_ = 0;
};

class resting_ledger final : public ledger {
public:
    explicit resting_ledger(rule in_force) : ledger(in_force), most_(in_force.limit) {}

    amount remaining(time_point now) const override {
        auto const rest = std::ranges::count_if(ends_, [&](ending const& e) {
            return !e.is_over && now < e.at + rule_.time;
        });
        return std::max<amount>(rule_.limit - in_use_ - rest, 0);
    }
    std::optional<amount> in_use() const override { return in_use_; }
    void took(amount n, ticket, time_point) override { in_use_ += n; }
    // Of permits beyond the seats the latest rest: at most the greatest `limit` so far.
    void came_home(amount n, ticket, time_point now) override {
        in_use_ -= n;
        ends_.insert(ends_.end(), static_cast<std::size_t>(n), {.at = now});
        if (auto const all = std::ssize(ends_); all > most_)
            ends_.erase(ends_.begin(), ends_.end() - most_);
    }
    void refunded(amount n, ticket, time_point) override { in_use_ -= n; }
    void configured(rule next, time_point now) override {
        for (auto& e : ends_)
            e.is_over = e.is_over || now >= e.at + rule_.time;
        rule_ = next;
        most_ = std::max(most_, next.limit);
    }

private:
    struct ending {
        time_point at{};
        bool is_over = false;  // at a change of options
    };

    std::unique_ptr<ledger> copy() const override {
        auto twin = std::make_unique<resting_ledger>(rule_);
        twin->in_use_ = in_use_;
        twin->ends_ = ends_;
        twin->most_ = most_;
        return twin;
    }
    time_point alone(amount n, time_point now) const override {
        if (n > rule_.limit - in_use_)
            return weir::unknown;
        auto at = now;
        for (auto const& e : ends_) {
            if (fits(n, at))
                break;
            at = std::max(at, e.at + rule_.time);
        }
        return at;
    }

    amount in_use_ = 0;
    std::vector<ending> ends_;  // the oldest first
    amount most_;
};

// The ledger of a sliding log, or of a window with a number of slices.
class log_ledger final : public ledger {
public:
    log_ledger(rule in_force, std::optional<int> slices) : ledger(in_force), slices_(slices) {}

    amount remaining(time_point now) const override {
        amount used = 0;
        for (auto const& s : log_)
            used += cool(s, now) ? 0 : s.units;
        return std::max<amount>(rule_.limit - used, 0);
    }

    void took(amount n, ticket, time_point now) override {
        bool const goes_on = !log_.empty() && log_.back().units != 0 && !log_.back().settled &&
                             (now - log_.back().began < length() || log_.back().last == now);
        if (!goes_on)
            log_.push_back({.began = now});
        log_.back().last = now;
        log_.back().units += n;
    }

    void refunded(amount n, ticket t, time_point now) override {
        auto const granted = time_point(duration(static_cast<duration::rep>(t)));
        for (auto& s : log_) {
            if (s.last < granted || s.units == 0)
                continue;
            if (cool(s, now))
                return;
            auto const here = std::min(n, s.units);
            s.units -= here;
            n -= here;
        }
    }

    void unused(std::vector<time_point> const& grants) override {
        for (auto const at : grants) {
            auto const it = std::ranges::find_if(log_, [&](slice const& s) {
                return s.began <= at && at <= s.last && s.units != 0;
            });
            if (it != log_.end())
                --it->units;
        }
    }

    void configured(rule next, time_point now) override {
        for (auto& s : log_)
            s.settled = cool(s, now);
        rule_ = next;
    }

private:
    struct slice {
        time_point began{};
        time_point last{};
        amount units = 0;
        bool settled = false;  // had expired at a change of options
    };

    [[nodiscard]] duration length() const {
        return slices_ ? (rule_.time + duration(*slices_ - 1)) / *slices_ : duration(1);
    }
    [[nodiscard]] bool cool(slice const& s, time_point now) const {
        return s.settled || weir::later(s.last, rule_.time) <= now;
    }
    std::unique_ptr<ledger> copy() const override {
        auto twin = std::make_unique<log_ledger>(rule_, slices_);
        twin->log_ = log_;
        return twin;
    }
    time_point alone(amount n, time_point now) const override {
        auto at = now;
        for (auto const& s : log_) {
            if (fits(n, at))
                break;
            at = std::max(at, weir::later(s.last, rule_.time));
        }
        return at;
    }

    std::optional<int> slices_;
    std::vector<slice> log_;
};

// Permits beyond the limit are a debt, which the next windows pay before they grant anything. Grants of a past window
// are not undone, except for the part of them that is still to be paid.
class window_ledger final : public ledger {
public:
    explicit window_ledger(rule in_force) : ledger(in_force) {}

    amount remaining(time_point now) const override {
        auto const then = at(now);
        return std::max<amount>(rule_.limit - then.used_, 0);
    }

    void took(amount n, ticket, time_point now) override {
        move_on(now);
        if (used_ == 0) {
            began_ = now;
            since_ = now;
            carried_.clear();
        }
        auto const granted = std::min(n, room());
        used_ += granted;
        owed_ += n - granted;
    }

    void refunded(amount n, ticket t, time_point now) override {
        move_on(now);
        auto const granted = time_point(duration(static_cast<duration::rep>(t)));
        if (used_ == 0 || granted < since_)
            return;
        if (granted < began_) {
            n = std::min(n, *std::ranges::min_element(carried_));
            for (auto& debt : carried_)
                debt -= n;
        }
        auto const forgiven = std::min(n, owed_);
        owed_ -= forgiven;
        used_ -= n - forgiven;
    }

    void configured(rule next, time_point now) override {
        move_on(now);
        rule_ = next;
        if (used_ != 0 && now - began_ >= rule_.time) {
            began_ = now;
            carried_.push_back(used_ + owed_);
        }
        pay();
    }

private:
    window_ledger(window_ledger const& other)
        : ledger(other.rule_),
          began_(other.began_),
          used_(other.used_),
          owed_(other.owed_),
          since_(other.since_),
          carried_(other.carried_) {}

    [[nodiscard]] window_ledger at(time_point now) const {
        auto then = *this;
        then.move_on(now);
        return then;
    }
    void move_on(time_point now) {
        while (used_ != 0 && now - began_ >= rule_.time) {
            began_ += rule_.time;
            carried_.push_back(owed_);
            used_ = 0;
            pay();
        }
    }
    [[nodiscard]] amount room() const { return std::max<amount>(rule_.limit - used_, 0); }
    void pay() {
        auto const paid = std::min(owed_, room());
        used_ += paid;
        owed_ -= paid;
    }
    std::unique_ptr<ledger> copy() const override {
        return std::unique_ptr<ledger>(new window_ledger(*this));
    }
    time_point alone(amount n, time_point now) const override {
        if (n > rule_.limit)
            return weir::never;
        if (fits(n, now))
            return now;
        auto then = at(now);
        auto end = then.began_ + rule_.time;
        while (!then.fits(n, end))
            end += rule_.time;
        return end;
    }

    time_point began_{};
    amount used_ = 0;
    amount owed_ = 0;
    time_point since_{};           // the first grant since which there was always a debt
    std::vector<amount> carried_;  // into each window since then
};

// Counts in drops: one drop leaks per nanosecond, and a permit is `time` drops.
class bucket_ledger final : public ledger {
public:
    bucket_ledger(rule in_force, bool keeps_room) : ledger(in_force), keeps_room_(keeps_room) {}

    amount remaining(time_point now) const override {
        return std::max<duration::rep>(full() - level(now), 0) / rule_.time.count();
    }
    void took(amount n, ticket, time_point now) override { set(level(now) + drops(n), now); }
    void refunded(amount n, ticket, time_point now) override {
        set(std::max<duration::rep>(level(now) - drops(n), 0), now);
    }
    void configured(rule next, time_point now) override {
        auto const before = rule_;
        auto const was = level(now);
        rule_ = next;
        auto const up = [&](duration::rep d) {  // rounded up; may be negative
            auto const length = before.time.count();
            auto const product = d * rule_.time.count();
            return product / length + (product % length > 0 ? 1 : 0);
        };
        if (keeps_room_)
            set(std::max<duration::rep>(full() + up(was - before.limit * before.time.count()), 0),
                now);
        else
            set(up(was), now);
    }

private:
    [[nodiscard]] duration::rep drops(amount n) const { return n * rule_.time.count(); }
    [[nodiscard]] duration::rep full() const { return drops(rule_.limit); }
    [[nodiscard]] duration::rep level(time_point now) const {
        return std::max<duration::rep>(level_ - (now - since_).count(), 0);
    }
    void set(duration::rep level, time_point now) {
        level_ = level;
        since_ = now;
    }
    std::unique_ptr<ledger> copy() const override {
        auto twin = std::make_unique<bucket_ledger>(rule_, keeps_room_);
        twin->set(level_, since_);
        return twin;
    }
    time_point alone(amount n, time_point now) const override {
        auto const too_much = level(now) + drops(n) - full();
        return now + duration(std::max<duration::rep>(too_much, 0));
    }

    bool keeps_room_;  // when options change; otherwise the level
    duration::rep level_ = 0;
    time_point since_{};
};

}  // namespace

std::unique_ptr<ledger> ledger::of(policy which, rule in_force, time_point now) {
    switch (which) {
        case policy::seats:
            return std::make_unique<seat_ledger>(in_force);
        case policy::resting_seats:
            return std::make_unique<resting_ledger>(in_force);
        case policy::sliding_log:
            return std::make_unique<log_ledger>(in_force, std::nullopt);
        case policy::sliding_window:
            return std::make_unique<log_ledger>(in_force, slices_of_a_window);
        case policy::fixed_window:
            return std::make_unique<window_ledger>(in_force);
        case policy::token_bucket:
            return std::make_unique<bucket_ledger>(in_force, true);
        case policy::leaky_bucket:
            return std::make_unique<bucket_ledger>(in_force, false);
        case policy::smooth_bursty:
            return std::make_unique<debt_ledger>(in_force, false, now);
        case policy::smooth_warming_up:
            return std::make_unique<debt_ledger>(in_force, true, now);
        case policy::calendar_window:
            return std::make_unique<calendar_ledger>(in_force);
        case policy::server_quota:
            return std::make_unique<quota_ledger>(in_force);
        case policy::adaptive_rate:
            return std::make_unique<adaptive_ledger>(in_force, now);
        case policy::any:
            break;  // the ledger of the policy inside
    }
    return nullptr;
}

std::unique_ptr<ledger> ledger::promise_of(policy which, rule in_force) {
    if (which == policy::sliding_log || which == policy::sliding_window)
        return std::make_unique<log_ledger>(in_force, std::nullopt);
    return nullptr;
}

time_point ledger::earliest(amount n, std::vector<amount> const& ahead, time_point now) const {
    return foresee(n, ahead, now).value_or(weir::unknown);
}

time_point ledger::no_earlier(amount n, std::vector<amount> const& ahead, time_point now) const {
    return foresee(n, ahead, now).value_or(now);
}

// Returns nothing if it is unknown; `now` is then the last time that is known.
std::optional<time_point> ledger::foresee(amount n, std::vector<amount> ahead,
                                          time_point& now) const {
    auto const future = copy();
    ahead.push_back(n);
    for (auto const wanted : ahead) {
        auto const at = wanted > capacity() ? weir::unknown : future->alone(wanted, now);
        if (at == weir::unknown)
            return std::nullopt;
        now = at;
        future->took(wanted, 0, now);
    }
    return now;
}

}  // namespace explorer
