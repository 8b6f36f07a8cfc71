#include "schedule.hpp"

#include <weir/detail/random.hpp>

#include <algorithm>
#include <utility>

namespace explorer {
namespace {

// Threads are reused by the next run: making a stack takes longer than a run.
std::vector<std::unique_ptr<scheduler::thread>>& unused_threads() {
    static std::vector<std::unique_ptr<scheduler::thread>> threads;
    return threads;
}

scheduler* current = nullptr;

}  // namespace

std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
    return weir::detail::mix_bits(a * weir::detail::next_in_series + b + 0x632be59bd9b4e019U);
}

chooser::chooser(std::uint64_t seed, record& log)
    : log_(&log), random_(seed), by_chance_(true), lowest_(std::uint64_t{1} << 32) {
    log.size = log.switches = 0;
    manner_ = static_cast<manner>(random_() % 3);
    loyalty_ = static_cast<unsigned>(8 + random_() % 8);
    haste_ = random_() % 2 == 0 ? 0 : static_cast<unsigned>(1 + random_() % 24);
    fall_ = static_cast<unsigned>(4 + random_() % 28);
}

chooser::chooser(std::span<std::uint8_t const> told, record& log)
    : log_(&log), told_(told), by_chance_(false) {
    log.size = log.switches = 0;
}

bool chooser::pick(std::span<int const> options, bool goes_on, std::size_t& which) {
    if (options.size() == 1) {
        which = 0;
        return true;
    }
    auto const i = log_->size;
    if (i == record::capacity)
        return false;
    if (by_chance_)
        which = chance(options, goes_on);
    else
        which = i < told_.size() ? std::min<std::size_t>(told_[i], options.size() - 1) : 0;
    log_->choice[i] = static_cast<std::uint8_t>(which);
    log_->width[i] = static_cast<std::uint8_t>(options.size());
    log_->switches += goes_on && which != 0;
    log_->size = i + 1;
    return true;
}

std::size_t chooser::chance(std::span<int const> options, bool goes_on) {
    auto n = options.size();
    if (options[n - 1] == time_passes) {
        if (random_() % 256 < haste_)
            return n - 1;
        --n;
    }
    switch (manner_) {
        case manner::evenly:
            break;
        case manner::lazily:
            if (goes_on && random_() % 16 < loyalty_)
                return 0;
            break;
        case manner::by_rank: {
            if (goes_on && random_() % 256 < fall_)
                rank(options[0]) = --lowest_;
            std::size_t best = 0;
            for (std::size_t i = 1; i < n; ++i) {
                if (rank(options[i]) > rank(options[best]))
                    best = i;
            }
            return best;
        }
    }
    return random_() % n;
}

std::uint64_t& chooser::rank(int option) {
    auto const i = static_cast<std::size_t>(option + 1);
    while (ranks_.size() <= i)
        ranks_.push_back((std::uint64_t{1} << 32) + random_() % (std::uint64_t{1} << 32));
    return ranks_[i];
}

scheduler::scheduler(surroundings& around, chooser& choices, grain how_fine)
    : around_(around), choices_(choices), grain_(how_fine) {
    current = this;
}

scheduler::~scheduler() {
    for (auto* t : threads_)
        unused_threads().emplace_back(t);
}

scheduler::thread& scheduler::spawn(std::string name, std::function<void()> body) {
    auto& unused = unused_threads();
    if (unused.empty()) {
        unused.push_back(std::make_unique<thread>());
        unused.back()->stack = std::make_unique<fiber>(&scheduler::live, unused.back().get());
    }
    threads_.reserve(threads_.size() + 1);
    auto& t = *unused.back().release();
    unused.pop_back();
    t.name = std::move(name);
    t.number = static_cast<int>(threads_.size());
    t.body = std::move(body);
    t.is = thread::state::ready;
    t.call = nullptr;
    t.failing_allocation = 0;
    t.of_library = nullptr;
    threads_.push_back(&t);
    return t;
}

void scheduler::spawn_waiting(std::string name, void const* on, std::function<void()> body) {
    auto& t = spawn(std::move(name), std::move(body));
    t.is = thread::state::waiting;
    t.on = on;
}

void scheduler::live(void* self) {
    for (auto& t = *static_cast<thread*>(self);;) {
        t.body();
        t.body = nullptr;
        t.is = thread::state::ended;
        current->next();
    }
}

void scheduler::run() {
    next();
}

void scheduler::pause() {
    if (grain_ == grain::fine)
        next();
}

void scheduler::pause_before_lock() {
    if (grain_ == grain::fine || !running_->fresh)
        next();
}

void scheduler::wait(void const* on) {
    running_->is = thread::state::waiting;
    running_->on = on;
    next();
}

void scheduler::sleep(duration d) {
    running_->is = thread::state::asleep;
    running_->until = now_ + d;
    next();
}

void scheduler::notify(void const* on) {
    for (auto* t : threads_) {
        if (t->is == thread::state::waiting && t->on == on)
            t->is = thread::state::ready;
    }
}

void scheduler::pass(time_point until) {
    now_ = std::max(now_, until);
    for (auto* t : threads_) {
        if (t->is == thread::state::asleep && t->until <= now_)
            t->is = thread::state::ready;
    }
    around_.passed(now_);
}

time_point scheduler::next_waking() const noexcept {
    auto first = weir::never;
    for (auto const* t : threads_) {
        if (t->is == thread::state::asleep)
            first = std::min(first, t->until);
    }
    return first;
}

// Continues the chosen thread. The running thread calls it, or no thread at the start. It returns when the caller is
// chosen, or when all threads have ended.
void scheduler::next() {
    auto* const self = running_;
    for (;;) {
        options_.clear();
        bool const goes_on = self && self->is == thread::state::ready;
        if (goes_on)
            options_.push_back(self->number);
        auto const n = threads_.size();
        bool all_ended = true;
        for (std::size_t k = 1; k <= n; ++k) {
            auto const& t = *threads_[(k + static_cast<std::size_t>(self ? self->number : 0)) % n];
            all_ended = all_ended && t.is == thread::state::ended;
            if (&t != self && t.is == thread::state::ready)
                options_.push_back(t.number);
        }
        if (around_.timer_is_due())
            options_.push_back(chooser::timer_fires);
        if (options_.empty()) {
            if (all_ended) {
                running_ = nullptr;
                if (self)
                    self->stack->switch_to(main_);
                return;
            }
            around_.quiet();
            continue;
        }
        if (grain_ == grain::fine && around_.time_may_pass())
            options_.push_back(chooser::time_passes);

        std::size_t which = 0;
        if (choosing_ && !choices_.pick(options_, goes_on, which))
            around_.runs_away();
        auto const chosen = options_[which];
        if (chosen == chooser::timer_fires) {
            around_.fire_timer();
        } else if (chosen == chooser::time_passes) {
            pass(now_ + duration(1));
        } else {
            auto& t = *threads_[static_cast<std::size_t>(chosen)];
            t.fresh = true;
            running_ = &t;
            if (&t != self) {
                around_.switches(self, t);
                (self ? *self->stack : main_).switch_to(*t.stack);
            }
            return;
        }
    }
}

}  // namespace explorer
