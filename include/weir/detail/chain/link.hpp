#pragma once

#include <weir/amount.hpp>
#include <weir/detail/chain/member.hpp>
#include <weir/detail/enter_operation.hpp>
#include <weir/error.hpp>
#include <weir/time.hpp>

#include <memory>
#include <utility>

namespace weir::inline v0_2::detail {

/// The key of a limiter that does not distinguish its clients: none.
struct anybody {
    template <class F>
    auto with(F f) const {
        return f();
    }
    friend bool operator==(anybody, anybody) = default;
};

/// A limiter in a chain, and the request to it. It keeps the core alive, not the limiter.
template <class Core, class Executor, class Who = anybody>
class chain_link final : public chain_member {
public:
    using core_type = Core;
    using executor_type = Executor;

    chain_link(limiter_handle<Core, Executor> const& handle, request const& n, Who who = {})
        : handle_(handle), request_(n), who_(std::move(who)) {}

    [[nodiscard]] limiter_handle<Core, Executor> const& handle() const noexcept { return handle_; }

    [[nodiscard]] std::shared_ptr<chain_core> share() const noexcept override {
        return handle_.core;
    }
    [[nodiscard]] chain_core* hold_to_take() noexcept override {
        return handle_.core->hold_to_take(request_) ? handle_.core.get() : nullptr;
    }
    [[nodiscard]] chain_core& core() const noexcept override { return *handle_.core; }
    [[nodiscard]] request asks_for() const noexcept override { return request_; }
    [[nodiscard]] bool is(chain_member const& other) const noexcept override {
        return static_cast<chain_link const&>(other).who_ == who_;
    }

    [[nodiscard]] time_point now(section_time& t) const noexcept override {
        return at(t, [](auto&, time_point now) { return now; });
    }
    [[nodiscard]] duration patience() const noexcept override {
        return here([](auto& room, time_point) {
            auto const& queueing = room.queueing();
            return queueing.dry_run ? forever : queueing.patience.length_or(forever);
        });
    }
    [[nodiscard]] chain_turn consider(chain_entry const& e, section_time& t) noexcept override {
        auto const ask = [&](auto& room, time_point now) {
            return who_.with([&](auto const&... who) { return room.consider(e, now, who...); });
        };
        bool const needs_time = e.number != 0 || handle_.core->needs_time_to_ask();
        return needs_time ? at(t, ask) : here(ask);
    }
    [[nodiscard]] bool admit(chain_entry& e) noexcept override {
        bool const admitted = here([&](auto& room, time_point now) {
            return who_.with([&](auto const&... who) { return room.admit(e, now, who...); });
        });
        if (auto const waited = e.granted.waited(); waited != duration::zero())
            handle_.core->record({.asked = e.asked_for(), .granted = e.count, .waited = waited});
        return admitted;
    }
    rejected reject(chain_entry const& e, error_code ec, duration ready_in) noexcept override {
        auto const what = here([&](auto& room, time_point now) {
            return who_.with([&](auto const&... who) {
                return room.reject(e, ec, ready_in, now, who...);
            });
        });
        auto const waited = here([&](auto&, time_point now) {
            return e.number == 0 ? std::nullopt : std::optional(now - e.since);
        });
        handle_.core->record({.asked = e.asked_for(),
                              .error = ec,
                              .waited = waited,
                              .retry_after = if_known(what.retry_after)});
        return what;
    }

    [[nodiscard]] bool prepare(chain_entry& e, section_time& t) override {
        return at(t, [&](auto& room, time_point now) {
            return who_.with([&](auto const&... who) { return room.prepare(e, now, who...); });
        });
    }
    [[nodiscard]] bool has_place(chain_entry const& e) noexcept override {
        return here([&](auto& room, time_point now) { return room.has_place(e, now); });
    }
    void evict(chain_entry const& e) noexcept override {
        here([&](auto& room, time_point now) { room.evict(e, now); });
    }
    void register_entry(chain_entry& e) noexcept override {
        here([&](auto& room, time_point now) { room.register_entry(e, now); });
    }
    void unregister_entry(chain_entry& e) noexcept override {
        here([&](auto& room, time_point now) { room.unregister_entry(e, now); });
    }
    void enter_queue(chain_entry& e) noexcept override {
        here([&](auto& room, time_point now) { room.enter_queue(e, now); });
    }
    void leave_queue(chain_entry& e) noexcept override {
        here([&](auto& room, time_point now) { room.leave_queue(e, now); });
    }
    void reschedule(chain_entry const& e) noexcept override {
        here([&](auto& room, time_point now) { room.reschedule(e, now); });
    }
    [[nodiscard]] chain_line& chains(chain_entry const& e) noexcept override {
        return *here([&](auto& room, time_point) { return &room.chains_of(e); });
    }
    void summon() override { handle_.core->summon(); }

    void set_alarm(chain_operation& op, time_point at) noexcept override {
        here([&](auto& room, time_point) { room.set_alarm(op, at); });
    }
    void complete(chain_operation& op) noexcept override {
        here([&](auto& room, time_point) { room.complete(op); });
    }

private:
    // These run at the time of the last reading of the clock, and at the time of the section.
    template <class F>
    auto here(F f) const {
        return handle_.core->within(nullptr, f);
    }
    template <class F>
    auto at(section_time& t, F f) const {
        return handle_.core->within(&t, f);
    }

    limiter_handle<Core, Executor> handle_;
    request request_;
    [[no_unique_address]] Who who_;
};

}  // namespace weir::inline v0_2::detail
