#include "joint_ledger.hpp"

#include <algorithm>
#include <utility>

namespace explorer {
namespace {

class joint_ledger final : public ledger {
public:
    joint_ledger(rule in_force, time_point now)
        : ledger(in_force),
          seats_(ledger::of(policy::seats, in_force, now)),
          log_(ledger::of(policy::sliding_log, with_window(in_force), now)) {}

    amount remaining(time_point now) const override {
        return std::min(seats_->remaining(now), log_->remaining(now));
    }
    void took(amount n, ticket t, time_point now) override {
        seats_->took(n, t, now);
        log_->took(n, t, now);
    }
    void came_home(amount n, ticket t, time_point now) override { seats_->came_home(n, t, now); }
    void refunded(amount n, ticket t, time_point now) override {
        seats_->refunded(n, t, now);
        log_->refunded(n, t, now);
    }
    void configured(rule next, time_point now) override {
        rule_ = next;
        seats_->configured(next, now);
        log_->configured(with_window(next), now);
    }

private:
    static rule with_window(rule r) {
        r.time = window_of_a_log;
        return r;
    }
    joint_ledger(rule in_force, std::unique_ptr<ledger> seats, std::unique_ptr<ledger> log)
        : ledger(in_force), seats_(std::move(seats)), log_(std::move(log)) {}

    std::unique_ptr<ledger> copy() const override {
        return std::unique_ptr<ledger>(new joint_ledger(rule_, seats_->copy(), log_->copy()));
    }
    time_point alone(amount n, time_point now) const override {
        return std::max(seats_->alone(n, now), log_->alone(n, now));
    }

    std::unique_ptr<ledger> seats_;
    std::unique_ptr<ledger> log_;
};

}  // namespace

std::unique_ptr<ledger> ledger_of_seats_and_log(rule in_force, time_point now) {
    return std::make_unique<joint_ledger>(in_force, now);
}

}  // namespace explorer
