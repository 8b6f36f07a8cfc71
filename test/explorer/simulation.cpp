#include "simulation.hpp"

#include <weir/detail/chain/protocol.hpp>

#include <cstdio>

namespace explorer {
namespace {

simulation* the_world = nullptr;

}  // namespace

simulation::simulation(scenario const& s, chooser& choices, grain how_fine, bool aloud, int cores)
    : what(s),
      threads(*this, choices, how_fine),
      judge(s, threads.now()),
      stations(static_cast<std::size_t>(cores)),
      wall_ahead(s.wall_ahead),
      aloud_(aloud),
      failures_(s.post_failures) {
    the_world = this;
    for (auto& at : stations) {
        at.number = static_cast<int>(&at - stations.data());
        at.where = &home;
    }
    weir::detail::owed_by_this_thread = nullptr;
}

simulation::~simulation() {
    the_world = nullptr;
}

simulation& simulation::current() noexcept {
    return *the_world;
}

// State that the library keeps per system thread, and that simulated threads would otherwise share.
void simulation::switches(simulated_thread* from, simulated_thread& to) {
    auto* const owed = static_cast<weir::detail::call_list*>(to.of_library);
    auto* const others = std::exchange(weir::detail::owed_by_this_thread, owed);
    if (from)
        from->of_library = others;
}

void simulation::lock(scheduler::thread*& owner, int core) {
    if (quiet_call_)
        return;
    unfailing const ours;
    auto* const self = threads.running();
    if (core < 0 || core >= locks_)
        violated(invariant::lock, "a lock is taken after its end");
    if (owner == self)
        violated(invariant::lock, "the lock is taken by its holder");
    threads.pause_before_lock();
    while (owner)
        threads.wait(&owner);
    take_lock(owner, core);
}

void simulation::take_lock(scheduler::thread*& owner, int core) {
    threads.seen();
    owner = threads.running();
    holders_.push_back(owner);
    section_begins(calling(), core);
}

void simulation::counts(int core, weir::detail::counting how) {
    if (quiet_call_)
        return;
    unfailing const ours;
    say("  {}, by counting", how == weir::detail::counting::take       ? "takes 1"
                             : how == weir::detail::counting::put_back ? "puts 1 back"
                                                                       : "takes nothing");
    section_counts(calling(), core, how);
}

void simulation::unlock(scheduler::thread*& owner, int core) {
    if (quiet_call_)
        return;
    unfailing const ours;
    section_ends(calling(), core);
    holders_.erase(std::ranges::find(holders_, owner));
    owner = nullptr;
    threads.notify(&owner);
    threads.pause();  // the lock may be destroyed after this
}

call& simulation::calling() const {
    auto* const c = static_cast<call*>(threads.running()->call);
    if (!c)
        violated(invariant::lock, "the lock is taken outside a call");
    return *c;
}

void simulation::check_unlocked(char const* what_happens) const {
    if (std::ranges::count(holders_, threads.running()) != 0)
        violated(invariant::lock, fmt::format("{} under the lock", what_happens));
}

simulation::calls::calls(kind k, int of_core, int of_key) {
    auto* const self = current().threads.running();
    what = k;
    core = of_core;
    key = of_key;
    outer = static_cast<call*>(self->call);
    self->call = this;
}

simulation::calls::~calls() {
    current().threads.running()->call = outer;
}

bool simulation::initiating() const {
    for (auto const* c = static_cast<call const*>(threads.running()->call); c; c = c->outer) {
        if (c->what == call::kind::enter || c->what == call::kind::drain ||
            c->what == call::kind::watch || c->what == call::kind::hand_over)
            return true;
    }
    return false;
}

bool simulation::allocation_fails() noexcept {
    auto* const thread = the_world ? the_world->threads.running() : nullptr;
    return thread && thread->failing_allocation != 0 && --thread->failing_allocation == 0;
}

simulation::unfailing::unfailing() noexcept
    : kept_(std::exchange(current().threads.running()->failing_allocation, 0)) {}

simulation::unfailing::~unfailing() {
    current().threads.running()->failing_allocation = kept_;
}

void simulation::may_fail() {
    if (failures_ != 0 && mix(what.failure_seed, ++posts_) % 256 < failures_) {
        failed_ = true;
        say("  and that throws");
        throw failure();
    }
}

void simulation::post(context& where, std::unique_ptr<message>& m) {
    unfailing const ours;
    threads.pause();
    threads.seen();
    may_fail();
    put(where, m);
}

void simulation::put(context& where, std::unique_ptr<message>& m) {
    if (where.gone)
        violated(invariant::host, "a post to a destroyed context");
    where.messages.push_back(std::move(m));
    threads.notify(&where);
    threads.pause();
}

void simulation::post_step(station& at, std::unique_ptr<message> m) {
    unfailing const ours;
    threads.pause();
    threads.seen();
    if (at.step_on_its_way)
        violated(invariant::host, "a second step is posted");
    say("  posts a step");
    may_fail();
    at.step_on_its_way = true;  // from here on, the step may begin
    put(*at.where, m);
}

// The timer and the work guard do not support several threads.
void simulation::touch_host(station& at) {
    if (!at.has_host)
        violated(invariant::host, "the host is used after its end");
    check_unlocked("a use of the host");
    if (at.touched)
        violated(invariant::host, "two threads use the timer or the work guard at a time");
    at.touched = true;
    threads.pause();
    at.touched = false;
}

void simulation::set_timer(station& at, time_point when,
                           std::function<std::unique_ptr<message>()> callback) {
    say("  timer: {}",
        when == weir::never ? "off" : fmt::format("{} ns", when.time_since_epoch().count()));
    at.timer = {};  // in any case
    touch_host(at);
    if (!callback)
        return;
    may_fail();
    at.timer = {when, std::move(callback)};
}

void simulation::hold(station& at, bool keep) {
    touch_host(at);
    if (keep)
        may_fail();
    at.held = keep;
}

void simulation::host_goes(station& at) {
    check_unlocked("the end of the host");
    at.has_host = at.held = false;
    at.timer = {};
}

void simulation::fire_timer() {
    say("  the timer fires");
    auto& first = *std::ranges::min_element(stations, {}, fires_at);
    first.where->messages.push_back(first.timer.callback());
    first.timer = {};
    threads.notify(first.where);
}

void simulation::passed(time_point now) {
    if (aloud_)
        fmt::print("{:>5} ns\n", now.time_since_epoch().count());
}

void simulation::runs_away() {
    violated(invariant::end, "the run does not end");
}

void simulation::start_contexts() {
    for (int i = 0; i < what.executors; ++i)
        threads.spawn_waiting(fmt::format("executor {}", i), &home, [this] { serve(home); });
    threads.spawn_waiting("elsewhere", &elsewhere, [this] { serve(elsewhere); });
}

void simulation::end_contexts() {
    over_ = true;
    threads.stop_choosing();
    threads.notify(&home);
    threads.notify(&elsewhere);
}

void simulation::serve(context& where) {
    for (;;) {
        while ((where.messages.empty() || where.stopped) && !over_)
            threads.wait(&where);
        if (over_)
            return;
        auto next = where.messages.begin();
        if (!what.in_order)
            next += static_cast<std::ptrdiff_t>(
                mix(what.failure_seed, ++posts_) % where.messages.size());
        auto m = std::move(*next);
        where.messages.erase(next);
        ++where.running;
        threads.pause();
        try {
            m->run();
        } catch (failure const&) {
            say("  and the handler throws");
        }
        m.reset();
        --where.running;
        threads.notify(&where.running);
    }
}

void simulation::sweep_home() {
    home.gone = true;
    while (!home.messages.empty()) {
        auto const m = std::move(home.messages.front());
        home.messages.pop_front();
    }
}

void simulation::print(std::string const& line) const {
    auto const* const self = threads.running();
    fmt::print("         {:<12} {}\n", self ? self->name : "", line);
}

}  // namespace explorer
