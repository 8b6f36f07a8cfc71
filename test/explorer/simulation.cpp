#include "simulation.hpp"

#include <cstdio>

namespace explorer {
namespace {

simulation* the_world = nullptr;

}  // namespace

simulation::simulation(scenario const& s, chooser& choices, grain how_fine, bool aloud)
    : what(s),
      threads(*this, choices, how_fine),
      judge(s, threads.now()),
      aloud_(aloud),
      failures_(s.post_failures) {
    the_world = this;
}

simulation::~simulation() {
    the_world = nullptr;
}

simulation& simulation::current() noexcept {
    return *the_world;
}

void simulation::lock(scheduler::thread*& owner) {
    if (quiet_call_)
        return;
    unfailing const ours;
    auto* const self = threads.running();
    if (owner == self)
        violated(invariant::lock, "the lock is taken by the one who holds it");
    threads.pause_before_lock();
    while (owner)
        threads.wait(&owner);
    threads.seen();
    owner = self;
    holder_ = self;
    judge.locked(calling());
}

void simulation::unlock(scheduler::thread*& owner) {
    if (quiet_call_)
        return;
    unfailing const ours;
    judge.unlocked(calling(), threads.now());
    owner = holder_ = nullptr;
    threads.notify(&owner);
    threads.pause();  // the lock may be gone after this
}

call& simulation::calling() const {
    auto* const c = static_cast<call*>(threads.running()->call);
    if (!c)
        violated(invariant::lock, "the lock is taken where nobody has called");
    return *c;
}

void simulation::check_unlocked(char const* what_happens) const {
    if (holder_ && threads.running() == holder_)
        violated(invariant::lock, fmt::format("{} under the lock", what_happens));
}

simulation::calls::calls(kind k) {
    auto* const self = current().threads.running();
    what = k;
    outer = static_cast<call*>(self->call);
    self->call = this;
}

simulation::calls::~calls() {
    current().threads.running()->call = outer;
}

bool simulation::initiating() const {
    for (auto const* c = static_cast<call const*>(threads.running()->call); c; c = c->outer) {
        if (c->what == call::kind::enter || c->what == call::kind::drain ||
            c->what == call::kind::watch)
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
        violated(invariant::host, "a post to a context that has gone");
    where.messages.push_back(std::move(m));
    threads.notify(&where);
    threads.pause();
}

void simulation::post_step(std::unique_ptr<message> m) {
    unfailing const ours;
    threads.pause();
    threads.seen();
    if (step_on_its_way_)
        violated(invariant::host, "a second step is sent for");
    say("  sends for a step");
    may_fail();
    step_on_its_way_ = true;  // as soon as it is there, it may begin
    put(home, m);
}

// Timer and work are not made for several threads.
void simulation::touch_host() {
    if (!host_)
        violated(invariant::host, "the host is used after it has gone");
    check_unlocked("a touch of the host");
    if (touched_)
        violated(invariant::host, "two threads are at timer or work at a time");
    touched_ = true;
    threads.pause();
    touched_ = false;
}

void simulation::set_timer(time_point at, std::function<std::unique_ptr<message>()> callback) {
    say("  timer: {}",
        at == weir::never ? "off" : fmt::format("{} ns", at.time_since_epoch().count()));
    alarm_ = {};  // whatever comes
    touch_host();
    if (!callback)
        return;
    may_fail();
    alarm_ = {at, std::move(callback)};
}

void simulation::hold(bool keep) {
    touch_host();
    if (keep)
        may_fail();
    held_ = keep;
}

void simulation::host_goes() {
    check_unlocked("the end of the host");
    host_ = held_ = false;
    alarm_ = {};
}

void simulation::fire_timer() {
    say("  the timer fires");
    home.messages.push_back(alarm_.callback());
    alarm_ = {};
    threads.notify(&home);
}

void simulation::passed(time_point now) {
    if (aloud_)
        fmt::print("{:>5} ns\n", now.time_since_epoch().count());
}

void simulation::runs_away() {
    violated(invariant::end, "there is no end to this");
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
