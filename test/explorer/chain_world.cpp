#include <weir/detail/chain/link.hpp>
#include <weir/detail/chain/operation.hpp>
#include <weir/detail/chain/protocol.hpp>
#include <weir/detail/core.hpp>

#include "host.hpp"
#include "operation.hpp"
#include "overheard.hpp"
#include "simulation.hpp"
#include "world.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// Chains of three limiters, in every order, and plain callers of each of them. The oracle knows the promises only:
// what was granted is all or nothing, no elder was overtaken, and when all is quiet, each that waits is refused by
// a limiter in whose line it stands.

namespace explorer {
namespace {

constexpr int limiters = 3;

// All chains of one, two or three different limiters.
std::vector<std::vector<int>> all_chains() {
    std::vector<std::vector<int>> all;
    for (int a = 0; a != limiters; ++a) {
        all.push_back({a});
        for (int b = 0; b != limiters; ++b) {
            if (b == a)
                continue;
            all.push_back({a, b});
            all.push_back({a, b, limiters - a - b});
        }
    }
    return all;
}

// A simulated thread goes on instead of another one in here: what that owes is its own.
class others_go_on {
public:
    others_go_on() : owed_(std::exchange(weir::detail::owed_by_this_thread, nullptr)) {}
    others_go_on(others_go_on const&) = delete;
    others_go_on& operator=(others_go_on const&) = delete;
    ~others_go_on() { weir::detail::owed_by_this_thread = owed_; }

private:
    weir::detail::call_list* owed_;
};

class chain_host : public host {
public:
    class mutex_type : public explorer::mutex {
    public:
        void lock() {
            others_go_on const here;
            mutex::lock();
        }
        void unlock() {
            others_go_on const here;
            mutex::unlock();
        }
    };
    class event_type : public explorer::event {
    public:
        void wait() {
            others_go_on const here;
            event::wait();
        }
    };

    using host::host;

    template <class Core>
    void post(std::shared_ptr<Core> core) {
        others_go_on const here;
        host::post(std::move(core));
    }
    template <class Core>
    void arm(std::weak_ptr<Core> core, time_point at, std::uint64_t epoch) {
        others_go_on const here;
        host::arm(std::move(core), at, epoch);
    }
    void disarm() {
        others_go_on const here;
        host::disarm();
    }
    void hold(bool keep) {
        others_go_on const here;
        host::hold(keep);
    }
};

template <class Policy>
class chain_world final : public simulation {
    using room = weir::detail::waiting_room<Policy>;
    using core = weir::detail::core<room, chain_host>;
    using link = weir::detail::chain_link<core, int>;
    using kind = call::kind;
    using place = weir::detail::operation::place;

    class waiter;
    using turn = std::vector<permit>;  // what was granted, of each limiter

    struct slot {
        weir::detail::cancel_link link;
        int users = 0;
        int core = 0;
    };
    struct guest {
        int number = 0;
        std::unique_ptr<slot> cancels;
        std::vector<turn> turns;
        bool answered = true;
    };

public:
    chain_world(scenario const& s, chooser& choices, grain how_fine, bool aloud)
        : simulation(s, choices, how_fine, aloud, limiters), guests_(s.callers.size()) {
        quiet_call_ = true;
        typename Policy::options_type options;
        follow(s.at_first, options);
        for (auto& at : stations) {
            cores_.push_back(
                core::create(options, s.queueing, static_cast<simulation&>(*this), at));
            known_.push_back(cores_.back());
        }
        quiet_call_ = false;
        for (std::size_t i = 0; i != guests_.size(); ++i) {
            guests_[i].number = static_cast<int>(i);
            threads.spawn(fmt::format("caller {}", i), [this, i] { live(guests_[i]); });
        }
        left_ = guests_.size();
        start_contexts();
        threads.spawn_waiting("keeper", &order_, [this] { keep(); });
    }

    weir::limiter_stats play() {
        threads.run();
        return counted_;
    }

private:
    // A request that waits, of a chain or of one limiter: what the oracle knows of it, too.
    class waiter final : public weir::detail::chain_operation {
    public:
        waiter(chain_world& w, guest& g, action const& a)
            : world(w), who(g), how(a), of(chains()[static_cast<std::size_t>(a.key)]) {
            for (int const i : of)
                links.emplace_back(
                    weir::detail::limiter_handle<core, int>{
                        w.cores_[static_cast<std::size_t>(i)], 0},
                    how.n);
            std::array<weir::detail::chain_member*, limiters> members{};
            for (std::size_t i = 0; i != of.size(); ++i)
                members[i] = &links[i];
            entries = fill(places, std::span(members).first(of.size()));
            for (auto& e : entries)
                e.op = this;
            at_home = &*std::ranges::min_element(entries, {}, &weir::detail::chain_entry::index);
            options.passes = 1 + static_cast<int>(how.lives);
            options.reserve_for = duration(10);
        }
        ~waiter() { world.forget(*this); }

        [[nodiscard]] bool is_plain() const { return of.size() == 1 && !how.posts; }
        [[nodiscard]] bool waits() const { return at == place::queue || at == place::chained; }
        [[nodiscard]] bool has_permits() const {
            return is_plain() ? static_cast<bool>(granted)
                              : static_cast<bool>(entries.front().granted);
        }
        [[nodiscard]] time_point gives_up_at() const { return is_plain() ? deadline : gives_up; }

        [[nodiscard]] bool post() override {
            use("a post");
            bool const home = how.lives != action::abode::elsewhere;
            if (home && has_waited && world.what.post_failures == 0 && !world.is_kept_running())
                violated(invariant::host,
                         "a handler is posted to a context that may have returned");
            auto own = std::make_unique<arrival>(*this);
            auto& mine = *own;
            std::unique_ptr<message> m = std::move(own);
            others_go_on const here;
            try {
                world.post(home ? world.home : world.elsewhere, m);
            } catch (...) {
                mine.op = nullptr;
                throw;
            }
            return true;
        }
        void run() override {
            use("a handler");
            if (world.initiating())
                violated(invariant::completion,
                         "a handler is called inside its initiating function");
            complete();
        }
        void destroy() noexcept override {
            use("the end of a handler");
            others_go_on const here;
            finish(take_permits());
        }
        void complete() {
            auto given = take_permits();
            auto const size = is_plain() ? 1U : of.size();
            if (error ? !given.empty() : given.size() != size)
                violated(invariant::conserved, "not all or nothing");
            world.count(error);
            finish(std::move(given));
        }

        chain_world& world;
        guest& who;
        action const& how;
        std::vector<int> const& of;
        std::vector<link> links;
        std::array<weir::detail::chain_entry, limiters> places;

        // What was seen of it.
        bool has_waited = false;
        bool has_gone = false;
        bool reserved = false;
        int had_passed = 0;
        time_point reserved_until{};
        std::map<int, std::uint64_t> numbers;

    private:
        struct arrival final : message {
            explicit arrival(waiter& o) : op(&o) {}
            ~arrival() override {
                if (op)
                    op->destroy();
            }
            void run() override { std::exchange(op, nullptr)->run(); }
            waiter* op;
        };

        void use(char const* what_happens) {
            world.check_unlocked(what_happens);
            if (is_over_)
                violated(invariant::completion, "an operation is used after its end");
        }
        turn take_permits() {
            unfailing const ours;
            turn given;
            if (granted)
                given.push_back(std::move(granted));
            for (auto& e : entries) {
                if (e.granted)
                    given.push_back(std::move(e.granted));
            }
            return given;
        }
        void finish(turn given) {
            is_over_ = true;
            world.answer(who, how, std::move(given));
            delete this;
        }

        bool is_over_ = false;
    };

    static std::vector<std::vector<int>> const& chains() {
        static auto const all = all_chains();
        return all;
    }

    // Whoever uses the limiter objects, which must exist meanwhile.
    class use_of {
    public:
        explicit use_of(chain_world& w) : world_(w) { ++world_.users_; }
        use_of(use_of const&) = delete;
        use_of& operator=(use_of const&) = delete;
        ~use_of() {
            --world_.users_;
            world_.threads.notify(&world_.users_);
        }

    private:
        chain_world& world_;
    };

    [[nodiscard]] bool usable() const { return !abandoned_; }
    [[nodiscard]] core& core_at(int i) { return *cores_[static_cast<std::size_t>(i)]; }

    // What callers do.

    void live(guest& me) {
        for (auto const& a : what.callers[static_cast<std::size_t>(me.number)]) {
            say("{}", to_string(a, what));
            perform(me, a);
        }
        while (!me.turns.empty())
            leave(me, true, true);
        clear_slot(me);
        --left_;
    }

    void perform(guest& me, action const& a) {
        using enum action::kind;
        switch (a.what) {
            case enter:
                return begin(me, a);
            case try_enter:
                return try_to_enter(me, a);
            case charge:
                return on_one(a, [&](core& c) {
                    charged_ = true;
                    me.turns.emplace_back().push_back(c.charge(a.n));
                });
            case hold:
                return threads.sleep(a.time);
            case leave:
                return leave_first(me, true, !a.drops);
            case refund:
                return leave_first(me, false, !a.drops);
            case settle:
            case split:
            case merge:
                return leave_one(me);
            case cancel:
                return cancel_another(a.whom);
            case unlink:
                return clear_slot(guests_[static_cast<std::size_t>(a.whom)]);
            case cancel_all:
                return on_some(a, [](core& c) { c.cancel(); });
            case shut_down:
                return on_some(a, [](core& c) { c.shut_down(); });
            case close:
                return on_some(a, [](core& c) { c.close(); });
            case configure:
                return on_some(a, [&](core& c) {
                    charged_ = true;  // a limit may be lower than what is out
                    c.configure([&](auto& o) { follow(a.change, o); });
                });
            case look:
            case drain:
            case watch:
                return on_some(a, [](core& c) { static_cast<void>(c.stats()); });
            case abandon:
                return abandon_limiters();
            case end_context:
                return end_home();
        }
    }

    template <class F>
    void on_one(action const& a, F f) {
        if (!usable())
            return;
        use_of const here(*this);
        int const i = a.key % limiters;
        calls const c(kind::other, i);
        f(core_at(i));
    }
    template <class F>
    void on_some(action const& a, F f) {
        if (!usable())
            return;
        use_of const here(*this);
        for (int i = 0; i != limiters; ++i) {
            if (!a.of_all && i != a.key % limiters)
                continue;
            calls const c(kind::other, i);
            f(core_at(i));
        }
    }

    void begin(guest& me, action const& a) {
        if (!usable() || ending_)
            return;
        std::optional<use_of> here(std::in_place, *this);
        ++initiating_;
        bool const pends = begin_here(me, a);
        --initiating_;
        threads.notify(&initiating_);
        here.reset();
        while (pends && !me.answered)
            threads.wait(&me);
    }

    // Whether there will be an answer.
    bool begin_here(guest& me, action const& a) {
        if (a.tries_first) {
            waiter first(*this, me, a);
            calls const c(kind::other, first.of.front());
            auto const answer = enter_chain_at_once(first.entries);
            if (answer.granted)
                me.turns.push_back(permits_of(first.entries));
            if (answer.granted || answer.error)
                return false;
        }
        clear_slot(me);
        auto* const op = new waiter(*this, me, a);
        known_ops_.push_back(op);
        me.answered = false;
        int const home_core = op->of.front();
        if (a.cancellable) {
            auto cancels = std::make_unique<slot>();
            cancels->core = home_core;
            {
                calls const c(kind::other, home_core);
                core_at(home_core).connect(cancels->link, *op);
            }
            me.cancels = std::move(cancels);
        }
        weir::detail::wait_limit const limit{
            .length = a.time == action::unset ? weir::patience() : weir::patience(a.time),
            .until = weir::never};
        bool waits = false;
        bool begun = true;
        try {
            calls const c(kind::enter, home_core);
            fail_allocation(a.allocation);
            if (op->is_plain()) {
                op->ask_for(a.n);
                waits = core_at(home_core).enter(*op, limit);
            } else {
                waits = enter_chain(*op, limit);
            }
        } catch (failure const&) {
            begun = false;
        } catch (std::bad_alloc const&) {
            begun = false;
        }
        fail_allocation(0);
        if (waits)
            return true;
        if (!begun) {
            say("  throws");
            if (op->waits())
                violated(invariant::completion, "an operation that never began waits");
            calls const c(kind::other, home_core);
            core_at(home_core).disconnect(*op);
            me.answered = true;
            delete op;
            return false;
        }
        op->complete();
        return false;
    }

    static turn permits_of(std::span<weir::detail::chain_entry> entries) {
        unfailing const ours;
        turn given;
        for (auto& e : entries)
            given.push_back(std::move(e.granted));
        return given;
    }

    void try_to_enter(guest& me, action const& a) {
        if (!usable())
            return;
        use_of const here(*this);
        waiter once(*this, me, a);
        calls const c(kind::other, once.of.front());
        auto const answer = try_chain(once.entries);
        if (answer.granted)
            me.turns.push_back(permits_of(once.entries));
        else if (!answer.error)
            violated(invariant::verdict, "neither granted nor refused");
    }

    void answer(guest& who, action const& how, turn given) {
        unfailing const ours;
        say("caller {} is told", who.number);
        if (!given.empty())
            who.turns.push_back(std::move(given));
        if (how.drops && !who.turns.empty())
            leave(who, false, true);
        who.answered = true;
        threads.notify(&who);
    }

    void leave_first(guest& me, bool used, bool together) {
        if (!me.turns.empty())
            leave(me, used, together);
    }
    void leave(guest& me, bool used, bool together) {
        auto first = std::move(me.turns.front());
        me.turns.erase(me.turns.begin());
        say("leaves");
        calls const c(kind::other);
        if (together)
            weir::detail::leave_together(first, used);
        else
            first.clear();
    }
    void leave_one(guest& me) {
        if (me.turns.empty() || me.turns.front().empty())
            return;
        say("leaves one limiter");
        calls const c(kind::other);
        me.turns.front().front().leave();
    }

    void cancel_another(int whom) {
        auto* const s = guests_[static_cast<std::size_t>(whom)].cancels.get();
        auto const c = s ? known_[static_cast<std::size_t>(s->core)].lock() : nullptr;
        if (!c)
            return;
        ++s->users;
        {
            calls const cancels(kind::other, s->core);
            c->cancel(s->link);
        }
        --s->users;
        threads.notify(s);
    }
    void clear_slot(guest& whose) {
        auto const s = std::move(whose.cancels);
        if (!s)
            return;
        while (s->users != 0)
            threads.wait(s.get());
        if (auto const c = known_[static_cast<std::size_t>(s->core)].lock()) {
            calls const other(kind::other, s->core);
            c->disconnect(s->link);
        }
    }

    void abandon_limiters() {
        if (!usable())
            return;
        let_posts_fail(false);
        abandoned_ = true;
        while (users_ != 0 || destroying_)
            threads.wait(users_ != 0 ? static_cast<void*>(&users_) : &destroying_);
        destroying_ = true;
        for (auto const last = std::exchange(cores_, {}); auto const& one : last) {
            calls const c(kind::abandon);
            one->abandon();
        }
        destroying_ = false;
        threads.notify(&destroying_);
    }
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
        for (auto const* const op : known_ops_) {
            if (op->waits())
                violated(invariant::completion, "an operation outlives the context of its limiter");
        }
        sweep_home();
    }

    // The oracle.

    void forget(waiter const& op) { std::erase(known_ops_, &op); }

    void count(error_code ec) {
        ++(!ec                                           ? counted_.granted
           : ec == weir::errc::timed_out                 ? counted_.timed_out
           : ec == weir::errc::deadline_unreachable      ? counted_.deadline_unreachable
           : ec == weir::errc::queue_full                ? counted_.queue_full
           : ec == weir::errc::shed                      ? counted_.shed
           : ec == weir::errc::exceeds_capacity          ? counted_.exceeds_capacity
           : ec == weir::errc::closed                    ? counted_.closed
           : ec == boost::asio::error::operation_aborted ? counted_.cancelled
                                                         : counted_.limited);
    }

    [[nodiscard]] oracle& judge_of(request const&) override { return judge; }
    void section_begins(call&) override {}

    // Whatever has left the line since the last section was granted in this one, or is refused.
    void section_ends(call&) override {
        for (auto* const op : known_ops_) {
            if (op->has_gone || op->waits() || (!op->has_waited && !op->has_permits()))
                continue;
            op->has_gone = true;
            if (!op->error && op->has_permits())
                judge_grant(*op);
        }
        for (auto* const op : known_ops_) {
            if (op->waits())
                note(*op);
        }
    }

    static void note(waiter& op) {
        op.has_waited = true;
        op.reserved = op.reserves;
        op.had_passed = op.passed;
        op.reserved_until = op.reserves_until;
        if (op.is_plain())
            op.numbers[op.of.front()] = op.number;
        for (auto const& e : op.entries) {
            if (!op.is_plain())
                op.numbers[op.of[e.index]] = e.number;
        }
    }
    [[nodiscard]] static std::uint64_t arrival_of(waiter const& op, int limiter) {
        auto const at = op.numbers.find(limiter);
        return at == op.numbers.end() ? ~std::uint64_t() : at->second;
    }
    [[nodiscard]] static bool has(waiter const& op, int limiter) {
        return std::ranges::find(op.of, limiter) != op.of.end();
    }
    [[nodiscard]] static bool stands(waiter const& op, int limiter) {
        return op.is_plain() ? has(op, limiter)
                             : std::ranges::any_of(op.entries, [&](auto const& e) {
                                   return op.of[e.index] == limiter && e.stands;
                               });
    }

    // It has not moved in this section, in which it may have come back after a grant.
    [[nodiscard]] static bool stood_all_along(waiter const& op, int limiter) {
        return stands(op, limiter) && op.passed == op.had_passed && op.reserves == op.reserved &&
               op.reserves_until == op.reserved_until;
    }
    void overtaken(waiter const& by, waiter const& elder, int limiter) {
        auto const what_happens = fmt::format(
            "caller {} is granted limiter {} before caller {}, which came at {} and not at {}",
            by.who.number, limiter, elder.who.number, arrival_of(elder, limiter),
            arrival_of(by, limiter));
        say("{}", what_happens);
        violated(invariant::order, what_happens);
    }
    void judge_grant(waiter const& op) {
        if (op.how.n == 0)
            return;
        if (op.has_waited && op.gives_up_at() < threads.now())
            violated(invariant::deadline, "granted past its deadline");
        for (auto const* const other : known_ops_) {
            if (other == &op || !other->waits() || !other->has_waited)
                continue;
            bool const may_not_overtake =
                std::ranges::all_of(other->of, [&](int i) { return has(op, i); });
            for (int const i : other->of) {
                if (has(op, i) && arrival_of(*other, i) < arrival_of(op, i) &&
                    (stood_all_along(*other, i) || may_not_overtake))
                    overtaken(op, *other, i);
            }
        }
    }

    [[nodiscard]] bool lets(waiter const& op, int limiter) {
        auto& c = core_known(limiter);
        return c.ask([&](room const& r, time_point now) {
            return r.policy().ready_at(op.how.n, 0, now) <= now;
        });
    }
    [[nodiscard]] core& core_known(int i) { return *known_[static_cast<std::size_t>(i)].lock(); }

    // When no thread can go on.
    void check_quiet() {
        quiet_call_ = true;
        for (int i = 0; i != limiters; ++i) {
            auto const c = known_[static_cast<std::size_t>(i)].lock();
            if (c && !charged_ && c->stats().debt != 0)
                violated(invariant::room, "more was granted than there was");
            if (c)
                check_line(i);
        }
        for (auto* const op : known_ops_) {
            if (op->at == place::chained)
                check_chain(*op);
        }
        quiet_call_ = false;
    }

    // The first in line has no room; or it reserves, and waits for another.
    void check_line(int limiter) {
        waiter const* first = nullptr;
        for (auto const* const op : known_ops_) {
            if (op->waits() && stands(*op, limiter) &&
                (!first || arrival_of(*op, limiter) < arrival_of(*first, limiter)))
                first = op;
        }
        if (!first)
            return;
        if (lets(*first, limiter) && !first->reserves)
            violated(invariant::asleep, fmt::format("caller {} waits at limiter {}, which has room",
                                                    first->who.number, limiter));
        if (later(first->gives_up_at(), what.queueing.tolerance) < threads.now())
            violated(invariant::asleep, "a request waits past its deadline");
    }
    void check_chain(waiter& op) {
        if (op.called.load())
            violated(invariant::asleep, "a chain is called, and nobody claims it");
        std::size_t lines = 0;
        bool refused = false;
        for (auto& e : op.entries) {
            auto const t = e.member->consider(e);
            if (t.refused)
                violated(invariant::asleep,
                         "a chain waits for a limiter that will never let it go");
            lines += e.stands ? 1 : 0;
            refused = refused || (e.stands && !t.lets);
        }
        if (!refused)
            violated(invariant::asleep, "a chain waits where nothing keeps it waiting");
        if (lines != (op.reserves ? op.entries.size() : 1))
            violated(invariant::order, fmt::format("a chain stands in {} lines", lines));
        if (later(op.gives_up, what.queueing.tolerance) < threads.now())
            violated(invariant::asleep, "a chain waits past its deadline");
    }

    // The next time at which something should happen by itself.
    [[nodiscard]] time_point next_event() {
        auto at = weir::never;
        quiet_call_ = true;
        for (auto const* const op : known_ops_) {
            if (!op->waits())
                continue;
            at = std::min(at, later(op->gives_up_at(), what.queueing.tolerance + duration(1)));
            for (int const i : op->of) {
                if (!stands(*op, i))
                    continue;
                auto const ready = core_known(i).ask([&](room const& r, time_point now) {
                    return r.policy().ready_at(op->how.n, 0, now);
                });
                if (ready > threads.now())
                    at = std::min(at, ready);
            }
        }
        quiet_call_ = false;
        return at;
    }

    void quiet() override {
        if (has_failed() && usable()) {
            let_posts_fail(false);
            return ask_keeper(order::pay);
        }
        if (usable())
            let_posts_fail(true);
        check_quiet();
        auto const next = std::min({timer_at(), threads.next_waking(), next_event()});
        if (next < weir::never)
            return threads.pass(next);
        if (left_ == 0)
            return ask_keeper(usable() ? order::abandon : order::end);
        if (!usable() || ++freed_ > most_freed)
            violated(invariant::asleep, "callers wait for ever");
        ask_keeper(order::free);
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
                case order::pay:
                    on_some({}, [](core& c) {
                        error_code ec;
                        static_cast<void>(c.try_enter(weir::max_amount + 1, ec));
                    });
                    break;
                case order::free:
                    say("cancel(): callers hold what others wait for");
                    on_some({}, [](core& c) { c.cancel(); });
                    break;
                case order::abandon:
                    say("destroy the limiters");
                    abandon_limiters();
                    break;
                case order::end:
                    if (!known_ops_.empty())
                        violated(invariant::leak, "an operation is never completed");
                    if (std::ranges::any_of(known_, [](auto const& c) { return !c.expired(); }))
                        violated(invariant::leak, "the core outlives all who need it");
                    end_contexts();
                    return;
            }
        }
    }

    std::vector<guest> guests_;
    std::size_t left_ = 0;
    std::vector<std::shared_ptr<core>> cores_;  // while there are the limiter objects
    std::vector<std::weak_ptr<core>> known_;
    std::vector<waiter*> known_ops_;
    weir::limiter_stats counted_;
    int users_ = 0;
    int initiating_ = 0;
    int freed_ = 0;
    bool abandoned_ = false;
    bool destroying_ = false;
    bool ending_ = false;
    bool charged_ = false;
    order order_ = order::none;
};

}  // namespace

int const keys_of_limiter = static_cast<int>(all_chains().size());

weir::limiter_stats run(scenario const& s, chooser& choices, grain how_fine, bool aloud) {
    auto mine = s;
    mine.queueing.order = weir::queue_order::fifo;
    switch (s.which) {
#ifndef WEIR_EXPLORE_ONLY
        case policy::sliding_log:
            return chain_world<weir::policy::sliding_log>(mine, choices, how_fine, aloud).play();
#endif
        case policy::seats:
            return chain_world<weir::policy::seats>(mine, choices, how_fine, aloud).play();
        default:
            violated(invariant::crash, "chains are not explored with this policy");
    }
}

}  // namespace explorer
