#pragma once

#include <weir/detail/core_calls.hpp>

#include "operation.hpp"
#include "oracle.hpp"
#include "simulation.hpp"

#include <fmt/format.h>

#include <array>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

namespace explorer {

/// The limiter of a `world` in which each request goes to one core, and an `oracle` judges it.
///
/// `Limiter` derives from this class, and also has:
///
/// | expression              | meaning                                   |
/// |-------------------------|-------------------------------------------|
/// | `L::who(key)`           | the key arguments of a core: a tuple      |
/// | `l.judge_of(wish, key)` | the oracle of such a request              |
template <class Limiter, class Core>
class one_limiter {
    using cores_type = std::vector<std::shared_ptr<Core>>;

public:
    using permit_type = permit;

    explicit one_limiter(cores_type const& cores) : cores_(cores) {}

    [[nodiscard]] static std::array<int, 1> cores_of(int key) { return {Limiter::core_of(key)}; }
    [[nodiscard]] static bool concerns(action const&, int) noexcept { return true; }
    static void made(Core&, station&) noexcept {}

    template <class Operation>
    bool enter(Operation& op, action const& a, weir::detail::wait_limit const& limit) {
        return with_core(a.key,
                         [&](Core& c, auto const&... who) { return c.enter(op, limit, who...); });
    }
    template <class Operation>
    bool reserve(Operation& op, action const& a, weir::detail::wait_limit const& limit,
                 time_point& turn) {
        return with_core(a.key, [&](Core& c, auto const&... who) {
            return c.reserve(op, limit, turn, who...);
        });
    }
    void reserved(request const& r, time_point turn) { judge(r).reserved(r, turn); }
    permit enter_at_once(call& c, action const& a, error_code& ec) {
        auto granted = with_core(a.key, [&](Core& core, auto const&... who) {
            return core.enter_at_once(asked_by(a.n, a.more, a.how), ec, who...);
        });
        auto expected = c.expected.value_or(error_code());
        if (expected == weir::errc::no_permit)
            expected = {};
        check_at_once(c, granted, ec, expected);
        return granted;
    }
    permit try_enter(call& c, action const& a, error_code& ec) {
        auto granted = with_core(a.key, [&](Core& core, auto const&... who) {
            return core.try_enter(asked_by(a.n, a.more, a.how), ec, who...);
        });
        check_at_once(c, granted, ec, *c.expected);
        auto const retry_in = granted.retry_after().value_or(weir::forever);
        if (c.retry_in.value_or(retry_in) != retry_in)
            violated(invariant::verdict,
                     fmt::format("the retry time is {} ns, and it should be {} ns",
                                 retry_in.count(), c.retry_in->count()));
        return granted;
    }
    permit charge(call& c, action const& a) {
        auto granted = with_core(a.key, [&](Core& core, auto const&... who) {
            return core.charge(a.n, who...);
        });
        check_at_once(c, granted, granted ? error_code() : error_code(weir::errc::closed),
                      *c.expected);
        return granted;
    }
    static void comes_home(call& c, permit const& p, bool) { c.n = p.count(); }

    request& asks(int caller, request::wish wants, action const& a) {
        bool const enters = wants == request::wish::permits;
        auto const patience = a.time == action::unset ? std::nullopt : std::optional(a.time);
        auto& asked = self()
                          .judge_of(wants, enters ? a.key : call::every_key)
                          .asks(caller, wants, enters ? a.n : 0, patience);
        asked.more = enters ? a.more : 0;
        return asked;
    }
    static void entering(call&, request&) noexcept {}
    static void began(request const& r, bool waits) {
        if (waits ? r.is == request::state::entering : r.is != request::state::decided)
            violated(invariant::verdict, "an initiating function has neither queued nor decided");
    }
    void completed(request& r, error_code ec, permit const& granted, weir::overdue const& found) {
        judge(r).completed(r, ec, granted, found);
    }
    void destroyed(request& r, error_code, permit const&) { judge(r).destroyed(r); }
    void throws(request& r) { judge(r).throws(r); }
    static void quiet(time_point) noexcept {}
    static void home_has_ended() noexcept {}

private:
    Limiter& self() { return static_cast<Limiter&>(*this); }
    oracle& judge(request const& r) { return self().judge_of(r.wants, r.key); }

    template <class F>
    auto with_core(int key, F f) {
        auto& core = *cores_[static_cast<std::size_t>(Limiter::core_of(key))];
        return std::apply([&](auto const&... who) { return f(core, who...); }, Limiter::who(key));
    }

    static void check_at_once(call const& c, permit const& p, error_code ec, error_code expected) {
        simulation::current().say("  {}", ec ? ec.message() : p ? "granted" : "to wait");
        if (static_cast<bool>(p) != c.granted || p.count() != (p ? c.got : 0) || ec != expected)
            violated(invariant::verdict, fmt::format("at once, for {}: {} instead of {}", c.n,
                                                     ec ? ec.message() : "granted",
                                                     expected ? expected.message() : "granted"));
    }

    cores_type const& cores_;
};

}  // namespace explorer
