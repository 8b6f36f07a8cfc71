#include "world.hpp"

#include <weir/detail/core.hpp>

#include "host.hpp"
#include "operation.hpp"
#include "overheard.hpp"
#include "simulation.hpp"

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace explorer {
namespace {

/// Callers of one limiter.
template <class Policy>
class world final : public simulation, addressee {
    using room = weir::detail::waiting_room<overheard<Policy>>;
    using core = weir::detail::core<room, host>;
    using kind = call::kind;

public:
    // The options say what is inside an `any`.
    world(typename core::options_type options, scenario const& s, chooser& choices, grain how_fine,
          bool aloud)
        : simulation(s, choices, how_fine, aloud), callers_(s.callers.size()) {
        follow(s.at_first, options);
        quiet_call_ = true;
        handle_ = core::create(options, s.queueing, static_cast<simulation&>(*this));
        quiet_call_ = false;
        core_ = handle_;
        judge.calls_help(room::help_budget);

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
        return judge.counted();
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
            say("{}", to_string(a));
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
                return begin(me, a, request::wish::permits);
            case drain:
                return begin(me, a, request::wish::idleness);
            case watch:
                return begin(me, a, request::wish::overdue);
            case try_enter:
                return try_to_enter(me, a.n);
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
                return with_limiter([](core& c) { c.cancel(); }, kind::cancel_all);
            case shut_down:
                return with_limiter([](core& c) { c.shut_down(); }, kind::shut_down);
            case close:
                return with_limiter([](core& c) { c.close(); }, kind::close);
            case configure:
                return change_options(a);
            case look:
                with_limiter([](core& c) { static_cast<void>(c.stats()); }, kind::other);
                return with_limiter([](core& c) { static_cast<void>(c.options()); }, kind::other);
            case abandon:
                return abandon_limiter();
            case end_context:
                return end_home();
        }
    }

    // Whether there is a limiter object that is not being destroyed.
    [[nodiscard]] bool usable() const { return handle_ && !abandoned_; }

    template <class F>
    void with_limiter(F f, kind k) {
        if (!usable())
            return;
        use const here(*this);
        calls const c(k);
        f(*handle_);
    }

    // Operations.

    void begin(caller& me, action const& a, request::wish wants) {
        if (!usable() || ending_)
            return;
        std::optional<use> here(*this);
        ++initiating_;
        bool const waits = begin_here(me, a, wants);
        --initiating_;
        threads.notify(&initiating_);
        here.reset();
        while (waits && !me.answered)
            threads.wait(&me);
    }

    // Whether there will be an answer.
    bool begin_here(caller& me, action const& a, request::wish wants) {
        bool const enters = wants == request::wish::permits;
        if (a.tries_first && enters && try_first(me, a))
            return false;
        auto const patience = a.time == action::unset ? std::nullopt : std::optional(a.time);
        auto& asked = judge.asks(me.number, wants, enters ? a.n : 0, patience);
        auto* const op = new operation(*this, *this, me, a, asked);
        me.answered = false;
        if (me.slot && me.slot->link.target)
            violated(invariant::completion, "a link outlasts what it could cancel");
        clear_slot(me);
        if (a.cancellable) {
            auto slot = std::make_unique<canceller>();
            {
                calls const c(kind::other);
                handle_->connect(slot->link, *op);
            }
            me.slot = std::move(slot);
        }

        bool waits = false;
        bool begun = true;
        try {
            calls c(enters                             ? kind::enter
                    : wants == request::wish::idleness ? kind::drain
                                                       : kind::watch);
            c.who = &asked;
            fail_allocation(a.allocation);
            if (enters)
                waits = handle_->enter(
                    *op, {.length = patience ? weir::patience(*patience) : weir::patience(),
                          .until = weir::never});
            else if (wants == request::wish::idleness)
                waits = handle_->drain(*op);
            else
                waits = handle_->wait_overdue(*op);
        } catch (failure const&) {
            begun = false;
        } catch (std::bad_alloc const&) {
            begun = false;
        }
        fail_allocation(0);

        if (!begun) {
            say("  throws");
            {
                calls const c(kind::other);
                handle_->disconnect(*op);
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

    bool try_first(caller& me, action const& a) {
        error_code ec;
        calls c(kind::enter_at_once);
        c.n = a.n;
        seat s{handle_->enter_at_once(a.n, ec), {}};
        auto expected = c.expected.value_or(error_code());
        if (expected == weir::errc::limited)
            expected = {};
        check_at_once(c, s.held, ec, expected);
        bool const over = s.held || ec;
        keep_seat(me, std::move(s), c.at);
        return over;
    }

    void try_to_enter(caller& me, amount n) {
        if (!usable())
            return;
        use const here(*this);
        error_code ec;
        calls c(kind::try_enter);
        c.n = n;
        seat s{handle_->try_enter(n, ec), {}};
        check_at_once(c, s.held, ec, *c.expected);
        keep_seat(me, std::move(s), c.at);
    }

    void charge_for(caller& me, action const& a) {
        if (!usable())
            return;
        use const here(*this);
        calls c(kind::charge);
        c.n = a.n;
        seat s;
        fail_allocation(a.allocation);
        try {
            s.held = handle_->charge(a.n);
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
        who.answered = true;
        threads.notify(&who);
    }

    void bury(operation* op) override {
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
        calls c(kind::leave);
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
        calls c(kind::leave_unused);
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
        calls c(a.n < n ? kind::refund : kind::overdraw);
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
        calls const c(kind::split);
        seat part{s.held.split(n), {}};
        part.granted.assign(s.granted.end() - n, s.granted.end());
        s.granted.erase(s.granted.end() - n, s.granted.end());
        me.seats.push_back(std::move(part));
    }

    void merge_all(caller& me) {
        while (me.seats.size() > 1) {
            auto s = std::move(me.seats.back());
            me.seats.pop_back();
            auto& all = me.seats.front();
            calls const c(kind::merge);
            all.held.merge(std::move(s.held));
            all.granted.insert(all.granted.end(), s.granted.begin(), s.granted.end());
            std::ranges::sort(all.granted);
        }
    }

    // Whatever else callers do.

    void cancel_another(int whom) {
        auto* const slot = callers_[static_cast<std::size_t>(whom)].slot.get();
        auto const c = core_.lock();
        if (!slot || !c)
            return;
        ++slot->users;
        {
            calls cancels(kind::cancel);
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
        if (auto const c = core_.lock()) {
            calls const other(kind::other);
            c->disconnect(slot->link);
        }
    }

    void change_options(action const& a) {
        if (!usable())
            return;
        use const here(*this);
        calls c(kind::configure);
        c.change = a.change;
        fail_allocation(a.allocation);
        try {
            handle_->configure([&](auto& options) { follow(a.change, options); });
        } catch (std::bad_alloc const&) {}
        fail_allocation(0);
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
        {
            auto const last = std::move(handle_);
            calls const c(kind::abandon);
            last->abandon();
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
        if (auto const user = host::attached().lock()) {
            calls const c(kind::context_ends);
            user->context_ends();
        }
        if (has_host())
            violated(invariant::host, "the host outlives its context");
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
            std::min({timer_at(), threads.next_waking(), judge.next_event(threads.now())});
        if (next != weir::never)
            return threads.pass(next);
        if (left_ == 0)
            return ask_keeper(usable() ? order::abandon : order::end);
        if (!usable() || ++freed_ > most_freed)
            violated(invariant::asleep, "callers wait for ever");
        ask_keeper(order::free);
    }

    void check_quiet() {
        oracle::quiet_view seen{
            .now = threads.now(),
            .dead = !has_host(),
            .abandoned = !usable(),
            .held = is_held(),
            .timer = timer_at() != weir::never,
            .stats = {}};
        if (auto const c = core_.lock()) {
            quiet_call_ = true;
            seen.stats = c->stats();
            quiet_call_ = false;
        }
        for (auto const& one : callers_) {
            for (auto const& s : one.seats)
                judge.holds(s.held.id(), s.held.count());
        }
        judge.quiet(seen);
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
                    try_to_enter(nobody, weir::max_amount + 1);
                    break;
                }
                case order::free:  // callers who hold what they wait for are legal
                    say("cancel(): callers hold what others wait for");
                    with_limiter([](core& c) { c.cancel(); }, kind::cancel_all);
                    break;
                case order::abandon:
                    say("destroy the limiter");
                    abandon_limiter();
                    break;
                case order::end:
                    judge.finished();
                    if (!core_.expired())
                        violated(invariant::leak, "the core outlives all who need it");
                    end_contexts();
                    return;
            }
        }
    }

    std::vector<caller> callers_;
    std::size_t left_ = 0;  // callers
    std::shared_ptr<core> handle_;
    std::weak_ptr<core> core_;
    int users_ = 0;
    int initiating_ = 0;
    bool abandoned_ = false;
    bool destroying_ = false;  // somebody destroys the limiter or its context
    bool ending_ = false;
    int freed_ = 0;
    order order_ = order::none;
    std::vector<std::unique_ptr<operation>> graves_;
};

}  // namespace

weir::limiter_stats run(scenario const& s, chooser& choices, grain how_fine, bool aloud) {
#ifdef WEIR_EXPLORE_ONLY
    return world<weir::policy::WEIR_EXPLORE_ONLY>({}, s, choices, how_fine, aloud).play();
#else
    auto const play = [&]<class Policy>(std::type_identity<Policy>) {
        typename Policy::options_type const options;
        if (s.in_any)
            return world<weir::policy::any>(options, s, choices, how_fine, aloud).play();
        return world<Policy>(options, s, choices, how_fine, aloud).play();
    };
    switch (s.which) {
        case policy::seats:
            return play(std::type_identity<weir::policy::seats>());
        case policy::sliding_log:
            return play(std::type_identity<weir::policy::sliding_log>());
        case policy::sliding_window:
            return play(std::type_identity<weir::policy::sliding_window>());
        case policy::fixed_window:
            return play(std::type_identity<weir::policy::fixed_window>());
        case policy::token_bucket:
            return play(std::type_identity<weir::policy::token_bucket>());
        case policy::leaky_bucket:
            return play(std::type_identity<weir::policy::leaky_bucket>());
        case policy::smooth_bursty:
            return play(std::type_identity<weir::policy::smooth_bursty>());
        case policy::smooth_warming_up:
            return play(std::type_identity<weir::policy::smooth_warming_up>());
        case policy::any:
            break;
    }
    return {};
#endif
}

}  // namespace explorer

namespace boost {

// Assertions of the core, in every kind of build.
void assertion_failed(char const* what, char const*, char const*, long) {
    explorer::violated(explorer::invariant::assertion, what);
}

void assertion_failed_msg(char const* what, char const*, char const*, char const*, long) {
    explorer::violated(explorer::invariant::assertion, what);
}

}  // namespace boost
