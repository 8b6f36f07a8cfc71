#pragma once

#include <weir/detail/core.hpp>

#include "host.hpp"
#include "operation.hpp"
#include "simulation.hpp"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace explorer {

/// Callers of one limiter.
///
/// `Limiter` says what that is. It has one core, or several, of which each knows some of the keys:
///
/// | expression                             | what it is or does                                    |
/// |----------------------------------------|-------------------------------------------------------|
/// | `L::room`, `L::operation_type`         | what a core drives, and what waits there              |
/// | `L::cores`, `L::keys`                  | how many there are                                    |
/// | `L::core_of(key)`                      | the number of the core that knows the key             |
/// | `L::who(key)`                          | what a core is told of the key: a tuple               |
/// | `l.options_of_core()`                  | what a core is made of                                |
/// | `l.configure(core, action)`            | changes options as the action says                    |
/// | `l.cancel_key(core, key)`              | cancels all that wait for the key                     |
/// | `l.look(core)`                         | asks the core what it tells                           |
/// | `l.judge_of(wish, key)`                | the oracle of such a request                          |
/// | `l.section_begins(c)`, `..._ends(c)`   | tells the oracles of a critical section               |
/// | `l.next_event(now)`                    | when something should happen by itself                |
/// | `l.holds(seat)`                        | somebody has it, at a quiet moment                    |
/// | `l.quiet(core, station, seen)`         | checks one core, which may be null, at a quiet moment |
/// | `l.finished()`, `l.counted()`          | checks that nothing is left; what became of requests  |
template <class Limiter>
class world final : public simulation, addressee {
    using room = typename Limiter::room;
    using core = weir::detail::core<room, host>;
    using operation = explorer::operation<typename Limiter::operation_type>;
    using kind = call::kind;

public:
    world(typename Limiter::options_type const& options, scenario const& s, chooser& choices,
          grain how_fine, bool aloud)
        : simulation(s, choices, how_fine, aloud, Limiter::cores),
          limiter_(*this, options),
          callers_(s.callers.size()) {
        quiet_call_ = true;
        for (auto& at : stations) {
            cores_.push_back(core::create(
                limiter_.options_of_core(), s.queueing, static_cast<simulation&>(*this), at));
            known_.push_back(cores_.back());
        }
        quiet_call_ = false;

        // The callers go first, so that without preemption they run in order.
        for (std::size_t i = 0; i != callers_.size(); ++i) {
            callers_[i].number = static_cast<int>(i);
            threads.spawn(fmt::format("caller {}", i), [this, i] { live(callers_[i]); });
        }
        left_ = callers_.size();
        start_contexts();
        threads.spawn_waiting("keeper", &order_, [this] { keep(); });
    }

    weir::limiter_stats play() {
        threads.run();
        for (auto const& op : graves_) {
            if (op->is_linked())
                violated(invariant::completion, "an operation is in a line after its end");
        }
        return limiter_.counted();
    }

private:
    // A caller who uses the limiter object, which must exist meanwhile.
    class use {
    public:
        explicit use(world& w) : world_(w) { ++world_.users_; }
        use(use const&) = delete;
        use& operator=(use const&) = delete;
        ~use() {
            --world_.users_;
            world_.threads.notify(&world_.users_);
        }

    private:
        world& world_;
    };

    void live(caller& me) {
        for (auto const& a : what.callers[static_cast<std::size_t>(me.number)]) {
            say("{}", to_string(a, what));
            perform(me, a);
        }
        while (!me.seats.empty())
            leave_first(me);
        clear_slot(me);
        --left_;
    }

    void perform(caller& me, action const& a) {
        using enum action::kind;
        switch (a.what) {
            case enter:
                return begin(me, a, request::wish::permits, Limiter::core_of(a.key));
            case drain:
                return drain_all(me, a);
            case watch:
                return begin(me, a, request::wish::overdue, 0);
            case try_enter:
                return try_to_enter(me, a.key, {a.n, a.how});
            case charge:
                return charge_for(me, a);
            case hold:
                return threads.sleep(a.time);
            case leave:
                return leave_first(me);
            case refund:
                return refund_first(me);
            case settle:
                return settle_first(me, a);
            case split:
                return split_first(me);
            case merge:
                return merge_all(me);
            case cancel:
                return cancel_another(a.whom);
            case unlink:
                return clear_slot(callers_[static_cast<std::size_t>(a.whom)]);
            case cancel_all:
                if (!a.of_all)
                    return cancel_key(a.key);
                return with_each_core([](core& c) { c.cancel(); }, kind::cancel_all);
            case shut_down:
                return with_each_core([](core& c) { c.shut_down(); }, kind::shut_down);
            case close:
                return with_each_core([](core& c) { c.close(); }, kind::close);
            case configure:
                return change_options(a);
            case look:
                return with_each_core([this](core& c) { limiter_.look(c); }, kind::other);
            case abandon:
                return abandon_limiter();
            case end_context:
                return end_home();
        }
    }

    // Whether there is a limiter object that is not being destroyed.
    [[nodiscard]] bool usable() const { return !cores_.empty() && !abandoned_; }

    [[nodiscard]] core& core_at(int number) { return *cores_[static_cast<std::size_t>(number)]; }
    [[nodiscard]] core& core_of(int key) { return core_at(Limiter::core_of(key)); }

    template <class F>
    void with_each_core(F f, kind k) {
        if (!usable())
            return;
        use const here(*this);
        for (int i = 0; i != Limiter::cores; ++i) {
            calls const c(k, i);
            f(core_at(i));
        }
    }

    void cancel_key(int key) {
        if (!usable())
            return;
        use const here(*this);
        calls const c(kind::cancel_all, Limiter::core_of(key), key);
        limiter_.cancel_key(core_of(key), key);
    }

    // Operations.

    // One core after the other.
    void drain_all(caller& me, action const& a) {
        for (int i = 0; i != Limiter::cores; ++i) {
            me.told = weir::errc::closed;
            begin(me, a, request::wish::idleness, i);
            if (me.told)
                return;
        }
    }

    void begin(caller& me, action const& a, request::wish wants, int number) {
        if (!usable() || ending_)
            return;
        std::optional<use> here(*this);
        ++initiating_;
        bool const waits = begin_here(me, a, wants, number);
        --initiating_;
        threads.notify(&initiating_);
        here.reset();
        while (waits && !me.answered)
            threads.wait(&me);
    }

    // Whether there will be an answer.
    bool begin_here(caller& me, action const& a, request::wish wants, int number) {
        bool const enters = wants == request::wish::permits;
        if (a.tries_first && enters && try_first(me, a))
            return false;
        auto const patience = a.time == action::unset ? std::nullopt : std::optional(a.time);
        auto const key = enters ? a.key : call::every_key;
        auto& asked =
            limiter_.judge_of(wants, key).asks(me.number, wants, enters ? a.n : 0, patience);
        asked.key = key;
        asked.how = a.how;
        auto& here = core_at(number);
        auto* const op = new operation(*this, *this, me, a, asked);
        me.answered = false;
        if (me.slot && me.slot->link.target)
            violated(invariant::completion, "a link outlasts what it could cancel");
        clear_slot(me);
        if (a.cancellable) {
            auto slot = std::make_unique<canceller>();
            slot->core = number;
            slot->key = key;
            {
                calls const c(kind::other, number, key);
                here.connect(slot->link, *op);
            }
            me.slot = std::move(slot);
        }

        bool waits = false;
        bool begun = true;
        try {
            calls c(enters                             ? kind::enter
                    : wants == request::wish::idleness ? kind::drain
                                                       : kind::watch,
                    number, key);
            c.who = &asked;
            fail_allocation(a.allocation);
            if (enters)
                waits = with_key(key, [&](auto const&... who) {
                    return here.enter(
                        *op,
                        {.length = patience ? weir::patience(*patience) : weir::patience(),
                         .until = weir::never},
                        who...);
                });
            else if (wants == request::wish::idleness)
                waits = here.drain(*op);
            else if constexpr (std::derived_from<operation, weir::detail::overdue_operation>)
                waits = here.watch(*op);
        } catch (failure const&) {
            begun = false;
        } catch (std::bad_alloc const&) {
            begun = false;
        }
        fail_allocation(0);

        if (!begun) {
            say("  throws");
            {
                calls const c(kind::other, number, key);
                here.disconnect(*op);
            }
            op->discard();
            return false;
        }
        if (waits ? asked.is == request::state::entering : asked.is != request::state::decided)
            violated(invariant::verdict, "an initiating function has neither queued nor decided");
        if (waits)
            return true;
        if (!a.posts) {
            op->complete();
            return false;
        }
        try {
            return op->post();
        } catch (failure const&) {
            begun = false;
        }
        op->destroy();
        return false;
    }

    // Calls `f` with what a core is told of the key.
    template <class F>
    static auto with_key(int key, F f) {
        return std::apply(f, Limiter::who(key));
    }

    bool try_first(caller& me, action const& a) {
        error_code ec;
        calls c(kind::enter_at_once, Limiter::core_of(a.key), a.key);
        c.n = a.n;
        c.how = a.how;
        seat s{with_key(a.key,
                        [&](auto const&... who) {
                            return core_of(a.key).enter_at_once({a.n, a.how}, ec, who...);
                        }),
               {},
               a.key};
        auto expected = c.expected.value_or(error_code());
        if (expected == weir::errc::limited)
            expected = {};
        check_at_once(c, s.held, ec, expected);
        bool const over = s.held || ec;
        keep_seat(me, std::move(s), c.at);
        return over;
    }

    void try_to_enter(caller& me, int key, weir::request const& r) {
        if (!usable())
            return;
        use const here(*this);
        error_code ec;
        calls c(kind::try_enter, Limiter::core_of(key), key);
        c.n = r.count();
        c.how = {.priority = r.priority(), .key = r.key()};
        seat s{with_key(key,
                        [&](auto const&... who) { return core_of(key).try_enter(r, ec, who...); }),
               {},
               key};
        check_at_once(c, s.held, ec, *c.expected);
        keep_seat(me, std::move(s), c.at);
    }

    void charge_for(caller& me, action const& a) {
        if (!usable())
            return;
        use const here(*this);
        calls c(kind::charge, Limiter::core_of(a.key), a.key);
        c.n = a.n;
        seat s{{}, {}, a.key};
        fail_allocation(a.allocation);
        try {
            s.held = with_key(a.key, [&](auto const&... who) {
                return core_of(a.key).charge(a.n, who...);
            });
            fail_allocation(0);
            check_at_once(c, s.held, s.held ? error_code() : weir::errc::closed, *c.expected);
        } catch (std::bad_alloc const&) {
            fail_allocation(0);
            if (c.granted)
                violated(invariant::conserved, "a charge has taken something, and throws");
        }
        keep_seat(me, std::move(s), c.at);
    }

    void check_at_once(call const& c, permit const& p, error_code ec, error_code expected) {
        say("  {}", ec ? ec.message() : p ? "granted" : "to wait");
        if (static_cast<bool>(p) != c.granted || p.count() != (p ? c.n : 0) || ec != expected)
            violated(invariant::verdict, fmt::format("at once, for {}: {} instead of {}", c.n,
                                                     ec ? ec.message() : "granted",
                                                     expected ? expected.message() : "granted"));
    }

    void answer(caller& who, action const& how, error_code ec, seat given) override {
        say("caller {} is told: {}", who.number, ec ? ec.message() : "yes");
        if (how.drops)
            leave(given);
        if (given.held)
            who.seats.push_back(std::move(given));
        who.told = ec;
        who.answered = true;
        threads.notify(&who);
    }

    void bury(mortal* op) override {
        if (frees_at_once)
            delete op;
        else
            graves_.emplace_back(op);
    }

    // Permits.

    void keep_seat(caller& me, seat s, time_point at) {
        if (!s.held)
            return;
        s.granted.assign(static_cast<std::size_t>(s.held.count()), at);
        me.seats.push_back(std::move(s));
    }

    void leave(seat& s) override {
        if (!s.held)
            return;
        calls c(kind::leave, Limiter::core_of(s.key), s.key);
        c.n = s.held.count();
        s.held.leave();
        if (c.sections == 0)
            violated(invariant::conserved, "a permit did not come home");
    }

    void leave_first(caller& me) {
        if (me.seats.empty())
            return;
        auto s = std::move(me.seats.front());
        me.seats.pop_front();
        say("leaves with {}", s.held.count());
        leave(s);
    }

    void refund_first(caller& me) {
        if (me.seats.empty())
            return;
        auto s = std::move(me.seats.front());
        me.seats.pop_front();
        say("leaves with {}, unused", s.held.count());
        calls c(kind::leave_unused, Limiter::core_of(s.key), s.key);
        c.n = s.held.count();
        c.unused = s.granted;
        s.held.refund();
        if (c.sections == 0)
            violated(invariant::conserved, "a permit did not come home");
    }

    void settle_first(caller& me, action const& a) {
        if (me.seats.empty())
            return;
        auto& s = me.seats.front();
        auto const n = s.held.count();
        if (a.n == n)
            return s.held.settle(a.n);
        calls c(a.n < n ? kind::refund : kind::overdraw, Limiter::core_of(s.key), s.key);
        c.n = std::max(n - a.n, a.n - n);
        if (a.n < n) {  // the oldest go first
            auto const end = s.granted.begin() + c.n;
            c.unused.assign(s.granted.begin(), end);
            s.granted.erase(s.granted.begin(), end);
        }
        fail_allocation(a.allocation);
        try {
            s.held.settle(a.n);
        } catch (std::bad_alloc const&) {}
        fail_allocation(0);
        if (a.n > n && s.held.count() == a.n)
            s.granted.insert(s.granted.end(), static_cast<std::size_t>(c.n), c.at);
        if (a.n < n && s.held.count() != a.n)
            violated(invariant::conserved, "not settled");
    }

    void split_first(caller& me) {
        if (me.seats.empty())
            return;
        auto& s = me.seats.front();
        auto const n = s.held.count() / 2;
        calls const c(kind::split, Limiter::core_of(s.key), s.key);
        seat part{s.held.split(n), {}, s.key};
        part.granted.assign(s.granted.end() - n, s.granted.end());
        s.granted.erase(s.granted.end() - n, s.granted.end());
        me.seats.push_back(std::move(part));
    }

    // All of one key.
    void merge_all(caller& me) {
        for (std::size_t i = me.seats.size(); i-- > 1;) {
            auto& all = *std::ranges::find(me.seats, me.seats[i].key, &seat::key);
            if (&all == &me.seats[i])
                continue;
            auto s = std::move(me.seats[i]);
            me.seats.erase(me.seats.begin() + static_cast<std::ptrdiff_t>(i));
            auto& into = *std::ranges::find(me.seats, s.key, &seat::key);
            calls const c(kind::merge, Limiter::core_of(s.key), s.key);
            into.held.merge(std::move(s.held));
            into.granted.insert(into.granted.end(), s.granted.begin(), s.granted.end());
            std::ranges::sort(into.granted);
        }
    }

    // Whatever else callers do.

    void cancel_another(int whom) {
        auto* const slot = callers_[static_cast<std::size_t>(whom)].slot.get();
        auto const c = slot ? known_[static_cast<std::size_t>(slot->core)].lock() : nullptr;
        if (!c)
            return;
        ++slot->users;
        {
            calls cancels(kind::cancel, slot->core, slot->key);
            cancels.link = &slot->link;
            c->cancel(slot->link);
        }
        --slot->users;
        threads.notify(slot);
    }

    void clear_slot(caller& whose) {
        auto const slot = std::move(whose.slot);
        if (!slot)
            return;
        while (slot->users != 0)
            threads.wait(slot.get());
        if (auto const c = known_[static_cast<std::size_t>(slot->core)].lock()) {
            calls const other(kind::other, slot->core, slot->key);
            c->disconnect(slot->link);
        }
    }

    void change_options(action const& a) {
        if (!usable())
            return;
        use const here(*this);
        for (int i = 0; i != Limiter::cores; ++i) {
            if (!a.of_all && i != Limiter::core_of(a.key))
                continue;
            calls c(kind::configure, i, a.of_all ? call::every_key : a.key);
            c.change = a.change;
            c.resets = a.resets;
            fail_allocation(a.allocation);
            try {
                limiter_.configure(core_at(i), a);
            } catch (std::bad_alloc const&) {}
            fail_allocation(0);
        }
    }

    // Nobody is left at whose next call a post that failed could be made up for: so none fails.
    void abandon_limiter() {
        if (!usable())
            return;
        let_posts_fail(false);
        abandoned_ = true;
        while (users_ != 0 || destroying_)
            threads.wait(users_ != 0 ? static_cast<void*>(&users_) : &destroying_);
        destroying_ = true;
        for (auto const last = std::exchange(cores_, {}); auto const& one : last) {
            calls const c(kind::abandon, static_cast<int>(&one - last.data()));
            one->abandon();
        }
        destroying_ = false;
        threads.notify(&destroying_);
    }

    // As a context ends: after its threads have left it, with nobody starting anything there.
    void end_home() {
        if (std::exchange(ending_, true))
            return;
        home.stopped = true;
        while (home.running != 0 || initiating_ != 0)
            threads.wait(home.running != 0 ? &home.running : &initiating_);
        for (auto& at : stations) {
            if (auto const user = at.attached.lock()) {
                calls const c(kind::context_ends, at.number);
                user->context_ends();
            }
            if (at.has_host)
                violated(invariant::host, "the host outlives its context");
        }
        sweep_home();
    }

    // When nobody can go on.

    void quiet() override {
        if (has_failed() && usable()) {
            let_posts_fail(false);
            return ask_keeper(order::pay);
        }
        if (usable())
            let_posts_fail(true);
        check_quiet();
        auto const next =
            std::min({timer_at(), threads.next_waking(), limiter_.next_event(threads.now())});
        if (next != weir::never)
            return threads.pass(next);
        if (left_ == 0)
            return ask_keeper(usable() ? order::abandon : order::end);
        if (!usable() || ++freed_ > most_freed)
            violated(invariant::asleep, "callers wait for ever");
        ask_keeper(order::free);
    }

    void check_quiet() {
        for (auto const& one : callers_) {
            for (auto const& s : one.seats)
                limiter_.holds(s);
        }
        for (auto const& at : stations) {
            auto const c = known_[static_cast<std::size_t>(at.number)].lock();
            quiet_call_ = true;
            limiter_.quiet(c.get(), at,
                           {.now = threads.now(),
                            .dead = !at.has_host,
                            .abandoned = !usable(),
                            .held = at.held,
                            .timer = at.timer.at != weir::never,
                            .stats = {},
                            .waits = {}});
            quiet_call_ = false;
        }
    }

    void section_begins(call& c) override { limiter_.section_begins(c); }
    void section_ends(call& c) override { limiter_.section_ends(c); }
    [[nodiscard]] oracle& judge_of(request const& r) override {
        return limiter_.judge_of(r.wants, r.key);
    }

    // The keeper does what is left to do.

    static constexpr int most_freed = 1000;  // times that callers held what they waited for

    enum class order { none, pay, free, abandon, end };

    void ask_keeper(order what_to_do) {
        order_ = what_to_do;
        threads.notify(&order_);
    }

    void keep() {
        for (;;) {
            while (order_ == order::none)
                threads.wait(&order_);
            switch (std::exchange(order_, order::none)) {
                case order::none:
                    break;
                case order::pay: {
                    caller nobody;
                    for (int i = 0; i != Limiter::keys; ++i)
                        try_to_enter(nobody, i, weir::max_amount + 1);
                    break;
                }
                case order::free:  // callers who hold what they wait for are legal
                    say("cancel(): callers hold what others wait for");
                    with_each_core([](core& c) { c.cancel(); }, kind::cancel_all);
                    break;
                case order::abandon:
                    say("destroy the limiter");
                    abandon_limiter();
                    break;
                case order::end:
                    limiter_.finished();
                    if (std::ranges::any_of(known_, [](auto const& c) { return !c.expired(); }))
                        violated(invariant::leak, "the core outlives all who need it");
                    end_contexts();
                    return;
            }
        }
    }

    Limiter limiter_;
    std::vector<caller> callers_;
    std::size_t left_ = 0;                      // callers
    std::vector<std::shared_ptr<core>> cores_;  // while there is the limiter object
    std::vector<std::weak_ptr<core>> known_;
    int users_ = 0;
    int initiating_ = 0;
    bool abandoned_ = false;
    bool destroying_ = false;  // somebody destroys the limiter or its context
    bool ending_ = false;
    int freed_ = 0;
    order order_ = order::none;
    std::vector<std::unique_ptr<mortal>> graves_;
};

}  // namespace explorer
