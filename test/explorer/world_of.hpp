#pragma once

#include <weir/detail/core_calls.hpp>

#include "host.hpp"
#include "operation.hpp"
#include "outcomes.hpp"
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

/// Callers of one limiter, or of several.
///
/// `Limiter` defines the limiter. It has one core, or several, of which each has some of the keys; or a key is a
/// request to several cores:
///
/// | expression                             | meaning or effect                                      |
/// |----------------------------------------|--------------------------------------------------------|
/// | `L::core`, `L::permit_type`            | the type of a core, and of a permit                    |
/// | `L::operation_type`, `L::chain_type`   | the type of an operation; if `L::is_chain(action)`     |
/// | `L::cores(options)`, `L::keys`         | the number of cores, and of keys                       |
/// | `l.core_of(key)`, `l.cores_of(key)`    | the core at which a request for the key begins; all    |
/// | `l.concerns(action, core)`             | whether the action concerns the core                   |
/// | `l.options_of_core(number)`            | the constructor arguments of a core                    |
/// | `l.made(core, station)`                | the core was made                                      |
/// | `l.configure(core, action)`            | changes options by the action                          |
/// | `l.cancel_key(core, key)`              | cancels all waiting requests of the key                |
/// | `l.look(core)`                         | queries the core                                       |
/// | `l.enter(op, action, limit)`           | begins, like `core::enter`                             |
/// | `l.enter_at_once(c, action, ec)`       | tries, checks and returns the permit; so do            |
/// | `l.try_enter(..)`, `l.charge(..)`      | these                                                  |
/// | `l.comes_home(call, permit, used)`     | the call will release the permit                       |
/// | `l.asks(caller, wish, action)`         | the request, as the oracle records it                  |
/// | `l.entering(call, request)`            | the call will make the request                         |
/// | `l.began(request, waits)`              | it was made, and now waits or is decided               |
/// | `l.completed(..)`, `l.destroyed(..)`   | the outcome of it, as `addressee` receives it          |
/// | `l.throws(request)`                    | it never began                                         |
/// | `l.section_begins(c, core)`            | reports a critical section to the oracles              |
/// | `l.section_ends(c, core)`              |                                                        |
/// | `l.section_counts(c, core, how)`       | if it has a lock that counts: its section only counts  |
/// | `l.next_event(now)`                    | when something should happen without a call            |
/// | `l.holds(seat)`                        | the permit is in use, at a quiet moment                |
/// | `l.quiet(core, station, seen)`         | checks one core, which may be null, at a quiet moment  |
/// | `l.quiet(now)`                         | checks all of them, after each                         |
/// | `l.home_has_ended()`                   | checks that all objects of that context are destroyed  |
/// | `l.finished()`, `l.counted()`          | checks that nothing is left; the outcomes of requests  |
template <class Limiter>
class world final : public simulation, addressee<typename Limiter::permit_type> {
    using core = typename Limiter::core;
    using permit_type = typename Limiter::permit_type;
    using seat = seat_of<permit_type>;
    using caller = caller_of<permit_type>;
    using kind = call::kind;

    static constexpr bool has_chains = requires { typename Limiter::chain_type; };

    // The reservation of a caller.
    using kept = kept_operation<typename Limiter::operation_type, permit_type>;
    struct place {
        std::shared_ptr<kept> op;
        std::shared_ptr<core> of;
    };

public:
    world(typename Limiter::options_type const& options, scenario const& s, chooser& choices,
          grain how_fine, bool aloud)
        : simulation(s, choices, how_fine, aloud, Limiter::cores(options)),
          limiter_(*this, options, cores_),
          callers_(s.callers.size()),
          places_(s.callers.size()) {
        quiet_call_ = true;
        for (auto& at : stations) {
            cores_.push_back(core::create(limiter_.options_of_core(at.number), s.queueing,
                                          static_cast<simulation&>(*this), at));
            known_.push_back(cores_.back());
            limiter_.made(*cores_.back(), at);
        }
        quiet_call_ = false;

        // The callers are first, so that without preemption they run in order.
        for (std::size_t i = 0; i != callers_.size(); ++i) {
            callers_[i].number = static_cast<int>(i);
            threads.spawn(fmt::format("caller {}", i), [this, i] { live(callers_[i]); });
        }
        left_ = callers_.size();
        start_contexts();
        threads.spawn_waiting("keeper", &order_, [this] { keep(); });
    }

    outcomes play() {
        threads.run();
        for (auto const& op : graves_) {
            if (op->is_linked())
                violated(invariant::completion, "an operation is in a queue after its end");
        }
        return {limiter_.counted()};
    }

private:
    // A use of the limiter object by a caller; the object must exist meanwhile.
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
        if constexpr (!has_chains)
            give_back_place(me);
        while (!me.seats.empty())
            leave_first(me);
        clear_slot(me);
        --left_;
    }

    void perform(caller& me, action const& a) {
        using enum action::kind;
        switch (a.what) {
            case enter:
                return begin(me, a, request::wish::permits, limiter_.core_of(a.key));
            case reserve:
            case use:
            case take_up:
            case give_back:
                if constexpr (!has_chains)
                    perform_with_place(me, a);
                return;
            case drain:
                return drain_all(me, a);
            case watch:
                return begin(me, a, request::wish::overdue, 0);
            case try_enter:
                return try_to_enter(me, a);
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
                return split_first(me, a);
            case merge:
                return merge_all(me, a);
            case cancel:
                return cancel_another(a.whom);
            case unlink:
                return clear_slot(callers_[static_cast<std::size_t>(a.whom)]);
            case cancel_all:
                if (!a.of_all)
                    return cancel_key(a.key);
                return with_each_core([](core& c) { c.cancel(); }, kind::cancel_all, a);
            case shut_down:
                return with_each_core([](core& c) { c.shut_down(); }, kind::shut_down, a);
            case close:
                return with_each_core([](core& c) { c.close(); }, kind::close, a);
            case configure:
                return change_options(a);
            case pause:
            case resume:
                if constexpr (!has_chains)
                    pause_or_resume(a);
                return;
            case report:
                return report_first(me, a);
            case state:
                if constexpr (requires(core& c, statement const& said) { Limiter::state(c, said); })
                    state_quota(me, a);
                return;
            case set_clock:
                threads.seen();
                wall_ahead += a.time;
                return judge.clock_is_set();
            case look:
                return with_each_core([this](core& c) { limiter_.look(c); }, kind::other, a);
            case abandon:
                return abandon_limiter(a);
            case end_context:
                return end_home();
        }
    }

    // Returns whether there is a limiter object that is not being destroyed.
    [[nodiscard]] bool is_usable(int number) const {
        return !abandoned_[static_cast<std::size_t>(number)];
    }
    [[nodiscard]] bool is_any_usable() const {
        return std::ranges::any_of(stations, [&](auto const& at) { return is_usable(at.number); });
    }
    [[nodiscard]] bool are_all_usable() const {
        return std::ranges::all_of(stations, [&](auto const& at) { return is_usable(at.number); });
    }
    [[nodiscard]] bool are_usable_for(int key) const {
        return std::ranges::all_of(limiter_.cores_of(key), [&](int i) { return is_usable(i); });
    }

    [[nodiscard]] int number_of_cores() const { return static_cast<int>(stations.size()); }
    [[nodiscard]] core& core_at(int number) { return *cores_[static_cast<std::size_t>(number)]; }

    template <class F>
    void with_each_core(F f, kind k, action const& a) {
        for (int i = 0; i != number_of_cores(); ++i) {
            if (!is_usable(i) || !limiter_.concerns(a, i))
                continue;
            use const here(*this);
            calls const c(k, i);
            f(core_at(i));
        }
    }

    void cancel_key(int key) {
        auto const number = limiter_.core_of(key);
        if (!is_usable(number))
            return;
        use const here(*this);
        calls const c(kind::cancel_all, number, key);
        limiter_.cancel_key(core_at(number), key);
    }

    // Operations.

    // Drains one core after the other.
    void drain_all(caller& me, action const& a) {
        for (int i = 0; i != number_of_cores(); ++i) {
            me.told = weir::errc::closed;
            begin(me, a, request::wish::idleness, i);
            if (me.told)
                return;
        }
    }

    void begin(caller& me, action const& a, request::wish wants, int number) {
        bool const usable =
            wants == request::wish::permits ? are_usable_for(a.key) : is_usable(number);
        if (!usable || ending_)
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

    // Returns whether a completion will follow.
    bool begin_here(caller& me, action const& a, request::wish wants, int number) {
        bool const enters = wants == request::wish::permits;
        if (a.tries_first && enters && try_first(me, a))
            return false;
        if constexpr (has_chains) {
            if (enters && Limiter::is_chain(a))
                return begin_as<typename Limiter::chain_type>(me, a, wants, number);
        }
        return begin_as<typename Limiter::operation_type>(me, a, wants, number);
    }

    template <class Base>
    bool begin_as(caller& me, action const& a, request::wish wants, int number) {
        using operation = explorer::operation<Base, permit_type>;
        bool const enters = wants == request::wish::permits;
        auto const key = enters ? a.key : call::every_key;
        auto& asked = limiter_.asks(me.number, wants, a);
        asked.key = key;
        asked.core = number;
        asked.how = a.how;
        auto& here = core_at(number);
        auto* const op = new operation(*this, *this, me, a, asked);
        me.answered = false;
        connect(me, a, here, *op, asked);

        bool waits = false;
        bool begun = true;
        try {
            calls c(enters                             ? kind::enter
                    : wants == request::wish::idleness ? kind::drain
                                                       : kind::watch,
                    number, key);
            c.who = &asked;
            limiter_.entering(c, asked);
            fail_allocation(a.allocation);
            if (enters)
                waits = limiter_.enter(*op, a, limit_of(a));
            else if (wants == request::wish::idleness)
                waits = here.drain(*op);
            else if constexpr (std::derived_from<Base, weir::detail::overdue_operation>)
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
        limiter_.began(asked, waits);
        return waits || complete_at_once(a, *op);
    }

    static weir::detail::wait_limit limit_of(action const& a) {
        return {.length = a.time == action::unset ? weir::patience() : weir::patience(a.time),
                .until = weir::never};
    }

    // Completes like an initiating function whose operation is over. Returns whether a completion will follow.
    template <class Operation>
    static bool complete_at_once(action const& a, Operation& op) {
        if (!a.posts) {
            op.complete();
            return false;
        }
        try {
            return op.post();
        } catch (failure const&) {}
        op.destroy();
        return false;
    }

    void connect(caller& me, action const& a, core& here, weir::detail::operation& op,
                 request const& asked) {
        if (me.slot && me.slot->link.target)
            violated(invariant::completion, "a link outlives its operation");
        clear_slot(me);
        if (!a.cancellable)
            return;
        auto slot = std::make_unique<canceller>();
        slot->core = asked.core;
        slot->key = asked.key;
        {
            calls const c(kind::other, asked.core, asked.key);
            here.connect(slot->link, op);
        }
        me.slot = std::move(slot);
    }

    // Reservations.

    void perform_with_place(caller& me, action const& a) {
        using enum action::kind;
        if (a.what == reserve)
            return take_place(me, a);
        auto const& mine = places_[static_cast<std::size_t>(me.number)];
        if (!mine.op)
            return;
        if (a.what == take_up)
            return take_up_place(me);
        if (a.what == give_back || mine.op->asked().doomed || ending_)
            return give_back_place(me);
        use_place(me, a);
    }

    void take_place(caller& me, action const& a) {
        give_back_place(me);
        auto const number = limiter_.core_of(a.key);
        if (!are_usable_for(a.key) || ending_)
            return;
        use const here(*this);
        ++initiating_;
        auto& asked = limiter_.asks(me.number, request::wish::permits, a);
        asked.key = a.key;
        asked.core = number;
        asked.how = a.how;
        place mine{std::shared_ptr<kept>(new kept(*this, *this, a, asked)),
                   cores_[static_cast<std::size_t>(number)]};
        mine.op->keep(mine.op);
        bool waits = false;
        bool begun = true;
        auto turn = weir::unknown;
        try {
            calls c(kind::enter, number, a.key);
            c.who = &asked;
            fail_allocation(a.allocation);
            waits = limiter_.reserve(*mine.op, a, limit_of(a), turn);
        } catch (failure const&) {
            begun = false;
        } catch (std::bad_alloc const&) {
            begun = false;
        }
        fail_allocation(0);
        if (!waits)
            mine.op->let_go();
        if (!begun) {
            say("  throws");
            limiter_.throws(asked);
        } else {
            limiter_.began(asked, waits);
            if (waits || mine.op->granted)
                limiter_.reserved(asked, turn);
            if (!waits && mine.op->error)
                limiter_.completed(asked, mine.op->error, mine.op->granted, {});
            else
                places_[static_cast<std::size_t>(me.number)] = std::move(mine);
        }
        --initiating_;
        threads.notify(&initiating_);
    }

    [[nodiscard]] place release_place(caller const& me) {
        return std::exchange(places_[static_cast<std::size_t>(me.number)], {});
    }

    void take_up_place(caller& me) {
        auto const mine = places_[static_cast<std::size_t>(me.number)];
        auto& asked = mine.op->asked();
        error_code ec;
        permit_type granted;
        {
            calls c(kind::take_up, asked.core, asked.key);
            c.who = &asked;
            granted = mine.of->take_up(*mine.op, ec);
            if (ec != *c.expected)
                violated(invariant::verdict, fmt::format("its reservation has {} instead of {}",
                                                         ec.message(), c.expected->message()));
        }
        say("  {}", ec ? ec.message() : "granted");
        if (ec == weir::errc::no_permit)
            return;
        auto const gone = release_place(me);
        come_to_an_end(me, asked, ec, std::move(granted));
    }

    void give_back_place(caller& me) {
        auto const mine = release_place(me);
        if (!mine.op)
            return;
        say("releases its reservation");
        auto& asked = mine.op->asked();
        permit_type granted;
        {
            calls c(kind::give_up, asked.core, asked.key);
            c.who = &asked;
            granted = mine.of->give_up(*mine.op);
        }
        bool const refunds = static_cast<bool>(granted);
        come_to_an_end(me, asked, mine.op->error, std::move(granted));
        if (refunds) {
            std::rotate(me.seats.begin(), me.seats.end() - 1, me.seats.end());
            refund_first(me);
        }
    }

    // An operation whose context has ended has ended already, or ends soon.
    void come_to_an_end(caller& me, request& asked, error_code ec, permit_type granted) {
        if (asked.doomed)
            return;
        limiter_.completed(asked, ec, granted, {});
        keep_seat(me, {std::move(granted), {}, asked.key, asked.how}, asked.got, asked.decided_at);
    }

    void use_place(caller& me, action const& a) {
        auto const mine = release_place(me);
        auto& asked = mine.op->asked();
        ++initiating_;
        using operation = explorer::operation<typename Limiter::operation_type, permit_type>;
        auto* const before = asked.op;
        auto* const op = new operation(*this, *this, me, a, asked);
        asked.op = before;
        asked.heir = op;
        me.answered = false;
        connect(me, a, *mine.of, *op, asked);
        bool waits = false;
        {
            calls c(kind::hand_over, asked.core, asked.key);
            c.who = &asked;
            waits = mine.of->hand_over(*mine.op, *op);
        }
        asked.kept = false;
        asked.has_waited = waits;
        if (waits)
            mine.op->let_go();
        else
            asked.op = op;
        bool const answered = !waits && !complete_at_once(a, *op);
        --initiating_;
        threads.notify(&initiating_);
        while (!answered && !me.answered)
            threads.wait(&me);
    }

    bool try_first(caller& me, action const& a) {
        error_code ec;
        calls c(kind::enter_at_once, limiter_.core_of(a.key), a.key);
        c.n = a.n;
        c.more = a.more;
        c.how = a.how;
        auto granted = limiter_.enter_at_once(c, a, ec);
        bool const over = granted || ec;
        keep_seat(me, {std::move(granted), {}, a.key, a.how}, std::max(a.n, c.got), c.at);
        return over;
    }

    void try_to_enter(caller& me, action const& a) {
        if (!are_usable_for(a.key))
            return;
        use const here(*this);
        error_code ec;
        calls c(kind::try_enter, limiter_.core_of(a.key), a.key);
        c.n = a.n;
        c.more = a.more;
        c.how = a.how;
        auto granted = limiter_.try_enter(c, a, ec);
        keep_seat(me, {std::move(granted), {}, a.key, a.how}, std::max(a.n, c.got), c.at);
    }

    void charge_for(caller& me, action const& a) {
        if (!is_usable(limiter_.core_of(a.key)))
            return;
        use const here(*this);
        calls c(kind::charge, limiter_.core_of(a.key), a.key);
        c.n = a.n;
        seat s{{}, {}, a.key, {}};
        fail_allocation(a.allocation);
        try {
            s.held = limiter_.charge(c, a);
        } catch (std::bad_alloc const&) {
            if (c.granted)
                violated(invariant::conserved, "a charge takes permits and throws");
        }
        fail_allocation(0);
        keep_seat(me, std::move(s), a.n, c.at);
    }

    void completed(request& r, error_code ec, permit_type const& granted,
                   weir::overdue const& found) override {
        limiter_.completed(r, ec, granted, found);
    }
    void destroyed(request& r, error_code ec, permit_type const& granted) override {
        limiter_.destroyed(r, ec, granted);
    }
    void throws(request& r) override { limiter_.throws(r); }
    [[nodiscard]] context& home_of(request const& r) override {
        return *stations[static_cast<std::size_t>(r.core)].where;
    }

    void answer(caller& who, action const& how, error_code ec, seat given) override {
        say("caller {} gets: {}", who.number, ec ? ec.message() : "a grant");
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

    void keep_seat(caller& me, seat s, amount n, time_point at) {
        if (!s.held)
            return;
        s.granted.assign(static_cast<std::size_t>(n), at);
        me.seats.push_back(std::move(s));
    }

    void leave(seat& s) override {
        if (!s.held)
            return;
        calls c(kind::leave, limiter_.core_of(s.key), s.key);
        c.how = s.how;
        limiter_.comes_home(c, s.held, true);
        s.held.leave();
        if (c.sections == 0)
            violated(invariant::conserved, "a permit was not released");
    }

    void leave_first(caller& me) {
        if (me.seats.empty())
            return;
        auto s = std::move(me.seats.front());
        me.seats.pop_front();
        say("leaves");
        leave(s);
    }

    void refund_first(caller& me) {
        if (me.seats.empty())
            return;
        auto s = std::move(me.seats.front());
        me.seats.pop_front();
        say("leaves, unused");
        if (!s.held)
            return;
        calls c(kind::leave_unused, limiter_.core_of(s.key), s.key);
        c.how = s.how;
        limiter_.comes_home(c, s.held, false);
        c.unused = s.granted;
        s.held.refund();
        if (c.sections == 0)
            violated(invariant::conserved, "a permit was not released");
    }

    void report_first(caller& me, action const& a) {
        if constexpr (requires(permit_type& p) { p.report(weir::outcome::dropped); }) {
            if (me.seats.empty())
                return;
            auto& s = a.more == 0 ? me.seats.front() : me.seats.back();
            if (!s.held)
                return;
            calls const c(kind::other, limiter_.core_of(s.key), s.key);
            s.held.report(a.n == 1   ? weir::outcome::dropped
                          : a.n == 2 ? weir::outcome::ignored
                                     : weir::outcome::success);
        }
    }

    // Permits of several limiters are released in parts instead.
    void settle_first(caller& me, action const& a) {
        change_first(me, a, [&](auto& s) { settle(s, a); });
    }
    void split_first(caller& me, action const& a) {
        change_first(me, a, [&](auto& s) { split(me, s); });
    }
    template <class Change>
    void change_first(caller& me, action const& a, Change change) {
        if (me.seats.empty())
            return;
        auto& s = me.seats.front();
        if constexpr (has_chains)
            limiter_.leave_part(s.held, a);
        else
            change(s);
    }
    void merge_all(caller& me, action const& a) {
        if constexpr (has_chains)
            split_first(me, a);
        else
            merge(me);
    }

    void settle(seat& s, action const& a) {
        auto const n = s.held.count();
        if (a.n == n)
            return s.held.settle(a.n);
        calls c(a.n < n ? kind::refund : kind::overdraw, limiter_.core_of(s.key), s.key);
        c.n = std::max(n - a.n, a.n - n);
        c.how = s.how;
        c.taken = s.held.id();
        if (a.n < n) {  // the oldest permits leave first
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

    void split(caller& me, seat& s) {
        auto const n = s.held.count() / 2;
        calls const c(kind::split, limiter_.core_of(s.key), s.key);
        seat part{s.held.split(n), {}, s.key, s.how};
        part.granted.assign(s.granted.end() - n, s.granted.end());
        s.granted.erase(s.granted.end() - n, s.granted.end());
        me.seats.push_back(std::move(part));
    }

    // Merges all permits of one key and of one partition.
    void merge(caller& me) {
        for (std::size_t i = me.seats.size(); i-- > 1;) {
            auto const into = std::ranges::find_if(me.seats, [&](seat const& one) {
                return one.key == me.seats[i].key && one.how.flow == me.seats[i].how.flow;
            });
            if (&*into == &me.seats[i])
                continue;
            auto const n = into - me.seats.begin();
            auto s = std::move(me.seats[i]);
            me.seats.erase(me.seats.begin() + static_cast<std::ptrdiff_t>(i));
            auto& all = me.seats[static_cast<std::size_t>(n)];
            calls const c(kind::merge, limiter_.core_of(s.key), s.key);
            all.held.merge(std::move(s.held));
            all.granted.insert(all.granted.end(), s.granted.begin(), s.granted.end());
            std::ranges::sort(all.granted);
        }
    }

    // Other actions of callers.

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
        for (int i = 0; i != number_of_cores(); ++i) {
            if (!is_usable(i) || (!a.of_all && i != limiter_.core_of(a.key)))
                continue;
            use const here(*this);
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

    void state_quota(caller& me, action const& a) {
        if (!is_usable(0))
            return;
        use const here(*this);
        calls const c(kind::state, 0);
        auto const counted = a.more == 0 || me.seats.empty() ? 0 : me.seats.front().held.count();
        fail_allocation(a.allocation);
        try {
            Limiter::state(core_at(0), {.remaining = a.n, .reset = a.time, .counted = counted});
        } catch (std::bad_alloc const&) {}
        fail_allocation(0);
    }

    void pause_or_resume(action const& a) {
        if (a.what == action::kind::resume)
            return with_each_core([](core& c) { c.resume(); }, kind::resume, a);
        auto const end = weir::later(threads.now(), a.time);
        for (int i = 0; i != number_of_cores(); ++i) {
            if (!is_usable(i))
                continue;
            use const here(*this);
            calls c(kind::pause, i);
            c.pause_ends = end;
            core_at(i).pause_until(end);
        }
    }

    // No later call could make up for a failed post: so no post fails.
    void abandon_limiter(action const& a) {
        std::vector<std::shared_ptr<core>> last(cores_.size());
        for (std::size_t i = 0; i != cores_.size(); ++i) {
            if (abandoned_[i] || !limiter_.concerns(a, static_cast<int>(i)))
                continue;
            abandoned_[i] = true;
            last[i] = cores_[i];
        }
        if (std::ranges::none_of(last, [](auto const& one) { return one != nullptr; }))
            return;
        let_posts_fail(false);
        while (users_ != 0 || destroying_)
            threads.wait(users_ != 0 ? static_cast<void*>(&users_) : &destroying_);
        destroying_ = true;
        for (std::size_t i = 0; i != last.size(); ++i) {
            if (!last[i])
                continue;
            cores_[i].reset();
            {
                calls const c(kind::abandon, static_cast<int>(i));
                last[i]->abandon();
            }
            last[i].reset();
        }
        destroying_ = false;
        threads.notify(&destroying_);
    }

    // Ends the context: after its threads have left it, and while no operation is started there.
    void end_home() {
        if (std::exchange(ending_, true))
            return;
        home.stopped = true;
        while (home.running != 0 || initiating_ != 0)
            threads.wait(home.running != 0 ? &home.running : &initiating_);
        for (auto& at : stations) {
            if (at.where != &home)
                continue;
            if (auto const user = at.attached.lock()) {
                calls const c(kind::context_ends, at.number);
                user->context_ends();
            }
            if (at.has_host)
                violated(invariant::host, "the host outlives its context");
        }
        sweep_home();
        limiter_.home_has_ended();
    }

    // Runs when no thread can continue.

    void quiet() override {
        if (has_failed() && is_any_usable()) {
            let_posts_fail(false);
            return ask_keeper(order::pay);
        }
        if (are_all_usable())
            let_posts_fail(true);
        check_quiet();
        auto const next =
            std::min({timer_at(), threads.next_waking(), limiter_.next_event(threads.now())});
        if (next != weir::never)
            return threads.pass(next);
        if (left_ == 0)
            return ask_keeper(is_any_usable() ? order::abandon : order::end);
        if (!is_any_usable() || ++freed_ > most_freed)
            violated(invariant::asleep, "callers wait forever");
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
                            .abandoned = !is_usable(at.number),
                            .held = at.held,
                            .timer = at.timer.at != weir::never,
                            .stats = {},
                            .waits = {}});
            quiet_call_ = false;
        }
        limiter_.quiet(threads.now());
    }

    void section_begins(call& c, int number) override { limiter_.section_begins(c, number); }
    void section_ends(call& c, int number) override { limiter_.section_ends(c, number); }
    void section_counts(call& c, int number, weir::detail::counting how) override {
        if constexpr (requires { limiter_.section_counts(c, number, how); })
            limiter_.section_counts(c, number, how);
    }

    // The keeper does the remaining work.

    // how often callers held the permits that they waited for
    static constexpr int most_freed = 1000;

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
                    action a;
                    a.n = weir::max_amount + 1;
                    for (a.key = 0; a.key != Limiter::keys; ++a.key)
                        try_to_enter(nobody, a);
                    break;
                }
                case order::free:  // callers may hold the permits that they wait for
                    say("cancel(): callers hold permits that others wait for");
                    with_each_core([](core& c) { c.cancel(); }, kind::cancel_all, {});
                    break;
                case order::abandon:
                    say("destroy the limiter");
                    abandon_limiter({});
                    break;
                case order::end:
                    limiter_.finished();
                    if (std::ranges::any_of(known_, [](auto const& c) { return !c.expired(); }))
                        violated(invariant::leak, "the core outlives all its users");
                    end_contexts();
                    return;
            }
        }
    }

    std::vector<std::shared_ptr<core>> cores_;  // while the limiter object exists
    Limiter limiter_;
    std::vector<caller> callers_;
    std::vector<place> places_;  // of callers
    std::size_t left_ = 0;       // callers
    std::vector<std::weak_ptr<core>> known_;
    int users_ = 0;
    int initiating_ = 0;
    std::vector<bool> abandoned_ = std::vector<bool>(stations.size());
    bool destroying_ = false;  // a caller destroys the limiter or its context
    bool ending_ = false;
    int freed_ = 0;
    order order_ = order::none;
    std::vector<std::unique_ptr<mortal>> graves_;
};

}  // namespace explorer
