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

    [[nodiscard]] std::shared_ptr<chain_core> share(chain_core& of) const noexcept override {
        return static_cast<Core&>(of).share();
    }
    [[nodiscard]] chain_core* hold_to_take() noexcept override {
        return handle_.core->hold_to_take(request_) ? handle_.core.get() : nullptr;
    }
    [[nodiscard]] chain_core& core() const noexcept override { return *handle_.core; }
    [[nodiscard]] request asks_for() const noexcept override { return request_; }
    [[nodiscard]] bool is(chain_member const& other) const noexcept override {
        return static_cast<chain_link const&>(other).who_ == who_;
    }

    [[nodiscard]] chain_core* next_after(chain_entry const& e,
                                         error_code ec) const noexcept override {
        return core_of(e).next_after(ec);
    }
    [[nodiscard]] time_point now(chain_entry const& e, section_time& t) const noexcept override {
        return at(e, t, [](auto&, time_point now) { return now; });
    }
    [[nodiscard]] duration patience(chain_entry const& e) const noexcept override {
        return here(e, [](auto& room, time_point) {
            auto const& queueing = room.queueing();
            return queueing.dry_run ? forever : queueing.patience.length_or(forever);
        });
    }
    [[nodiscard]] chain_reply consider(chain_entry const& e, section_time& t) noexcept override {
        auto const ask = [&](auto& room, time_point now) {
            return who_.with([&](auto const&... who) { return room.consider(e, now, who...); });
        };
        bool const needs_time = e.number != 0 || core_of(e).needs_time_to_ask();
        return needs_time ? at(e, t, ask) : here(e, ask);
    }
    [[nodiscard]] bool admit(chain_entry& e) noexcept override {
        bool const admitted = here(e, [&](auto& room, time_point now) {
            return who_.with([&](auto const&... who) { return room.admit(e, now, who...); });
        });
        if (auto const waited = e.granted.waited(); waited != duration::zero())
            core_of(e).record({.asked = e.asked_for(), .granted = e.count, .waited = waited});
        return admitted;
    }
    rejected reject(chain_entry const& e, error_code ec, duration ready_in) noexcept override {
        auto const what = here(e, [&](auto& room, time_point now) {
            return who_.with([&](auto const&... who) {
                return room.reject(e, ec, ready_in, now, who...);
            });
        });
        auto const waited = here(e, [&](auto&, time_point now) {
            return e.number == 0 ? std::nullopt : std::optional(now - e.since);
        });
        core_of(e).record({.asked = e.asked_for(),
                           .error = ec,
                           .waited = waited,
                           .retry_after = if_known(what.retry_after)});
        return what;
    }

    [[nodiscard]] bool prepare(chain_entry& e, section_time& t) override {
        return at(e, t, [&](auto& room, time_point now) {
            return who_.with([&](auto const&... who) { return room.prepare(e, now, who...); });
        });
    }
    [[nodiscard]] bool fits_in_queue(chain_entry const& e) noexcept override {
        return here(e, [&](auto& room, time_point now) { return room.fits_in_queue(e, now); });
    }
    void evict(chain_entry const& e) noexcept override {
        here(e, [&](auto& room, time_point now) { room.evict(e, now); });
    }
    void register_entry(chain_entry& e) noexcept override {
        here(e, [&](auto& room, time_point now) { room.register_entry(e, now); });
    }
    void unregister_entry(chain_entry& e) noexcept override {
        here(e, [&](auto& room, time_point now) { room.unregister_entry(e, now); });
    }
    void enter_queue(chain_entry& e) noexcept override {
        here(e, [&](auto& room, time_point now) { room.enter_queue(e, now); });
    }
    void leave_queue(chain_entry& e) noexcept override {
        here(e, [&](auto& room, time_point now) { room.leave_queue(e, now); });
    }
    void reschedule(chain_entry const& e) noexcept override {
        here(e, [&](auto& room, time_point now) { room.reschedule(e, now); });
    }
    [[nodiscard]] chain_line& chains(chain_entry const& e) noexcept override {
        return *here(e, [&](auto& room, time_point) { return &room.chains_of(e); });
    }
    void summon(chain_entry const& e) override { core_of(e).summon(); }

    void set_alarm(chain_operation& op, time_point at) noexcept override {
        here(*op.at_home, [&](auto& room, time_point) { room.set_alarm(op, at); });
    }
    void complete(chain_operation& op) noexcept override {
        here(*op.at_home, [&](auto& room, time_point) { room.complete(op); });
    }

private:
    // These run at the time of the last reading of the clock, and at the time of the section.
    template <class F>
    static auto here(chain_entry const& e, F f) {
        return core_of(e).within(nullptr, f);
    }
    template <class F>
    static auto at(chain_entry const& e, section_time& t, F f) {
        return core_of(e).within(&t, f);
    }
    [[nodiscard]] static Core& core_of(chain_entry const& e) noexcept {
        return static_cast<Core&>(*e.core);
    }

    limiter_handle<Core, Executor> handle_;
    request request_;
    [[no_unique_address]] Who who_;
};

}  // namespace weir::inline v0_2::detail
