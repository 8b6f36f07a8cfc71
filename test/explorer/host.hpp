#pragma once

#include <weir/detail/context_user.hpp>
#include <weir/detail/counting_lock.hpp>

#include "simulation.hpp"

#include <memory>
#include <utility>

namespace explorer {

/// A lock at which the scheduler may switch threads.
class mutex {
public:
    mutex() : core_(simulation::current().count_lock()) {}
    mutex(mutex const&) = delete;
    mutex& operator=(mutex const&) = delete;
    void lock() { simulation::current().lock(owner_, core_); }
    void unlock() { simulation::current().unlock(owner_, core_); }

private:
    int core_;
    scheduler::thread* owner_ = nullptr;
};

/// A `mutex` that also counts permits.
class counting_mutex {
    using word = weir::detail::counting_word;
    using counting = weir::detail::counting;

public:
    counting_mutex() : core_(simulation::current().count_lock()) {}
    counting_mutex(counting_mutex const&) = delete;
    counting_mutex& operator=(counting_mutex const&) = delete;

    word lock() {
        simulation::current().lock(owner_, core_);
        return std::exchange(word_, {});
    }
    void unlock(word next) {
        auto& world = simulation::current();
        world.stations[static_cast<std::size_t>(core_)].counts = next.counts();
        word_ = next;
        if (auto const before = std::exchange(held_, {}); before.counts())
            world.counts(core_, change(before, next));
        world.unlock(owner_, core_);
    }
    word try_lock_to(counting what) {
        if (!simulation::current().try_lock(owner_, core_, [&] { return word_.can(what); }))
            return {};
        return held_ = std::exchange(word_, {});
    }
    bool try_take() { return count(counting::take); }
    bool try_put_back() { return count(counting::put_back); }

private:
    bool count(counting what) {
        auto const found = try_lock_to(what);
        if (found.counts())
            unlock(found.after(what));
        return found.counts();
    }
    static counting change(word before, word after) {
        return after == before.after_take()       ? counting::take
               : after == before.after_put_back() ? counting::put_back
                                                  : counting::nothing;
    }

    int core_;
    scheduler::thread* owner_ = nullptr;
    word word_;
    word held_;  // before it was locked to count
};

/// An event that one thread waits for and another one sets.
class event {
public:
    void set() {
        is_set_ = true;
        simulation::current().threads.notify(this);
    }
    void wait() {
        while (!is_set_)
            simulation::current().threads.wait(this);
    }

private:
    bool is_set_ = false;
};

/// The host of a core: the simulation.
class host {
public:
    using mutex_type = mutex;
    using event_type = event;

    host(simulation& world, station& at) : world_(&world), at_(&at) {
        simulation::host_is_made(at);
    }
    host(host&& other) noexcept : world_(std::exchange(other.world_, nullptr)), at_(other.at_) {}
    host& operator=(host&& other) noexcept {
        std::swap(world_, other.world_);
        std::swap(at_, other.at_);
        return *this;
    }
    ~host() {
        if (world_)
            world_->host_goes(*at_);
    }

    [[nodiscard]] static time_point now() noexcept { return simulation::current().threads.now(); }

    void attach(std::weak_ptr<weir::detail::context_user> who) { at_->attached = std::move(who); }

    template <class Core>
    void post(std::shared_ptr<Core> core) {
        simulation::unfailing const ours;
        world_->post_step(*at_, std::make_unique<step<Core>>(*at_, std::move(core)));
    }

    template <class Core>
    void arm(std::weak_ptr<Core> core, time_point at, std::uint64_t epoch) {
        simulation::unfailing const ours;
        world_->set_timer(*at_, at, [core, epoch, where = at_] {
            return std::make_unique<timer_callback<Core>>(*where, core, epoch);
        });
    }

    void disarm() { world_->set_timer(*at_, weir::never, nullptr); }

    void hold(bool keep) { world_->hold(*at_, keep); }

private:
    template <class Core>
    class step final : public message {
    public:
        step(station& at, std::shared_ptr<Core> core) : at_(at), core_(std::move(core)) {}
        ~step() override {
            simulation::calls const c(call::kind::other, at_.number);
            core_.reset();
        }
        void run() override {
            auto const core = std::move(core_);
            simulation::step_begins(at_);
            simulation::current().say("step");
            simulation::calls const c(call::kind::step, at_.number);
            core->step();
        }

    private:
        station& at_;
        std::shared_ptr<Core> core_;
    };

    template <class Core>
    class timer_callback final : public message {
    public:
        timer_callback(station& at, std::weak_ptr<Core> core, std::uint64_t epoch)
            : at_(at), core_(std::move(core)), epoch_(epoch) {}
        void run() override {
            if (auto const core = core_.lock()) {
                simulation::current().say("step, for the timer");
                simulation::calls const c(call::kind::step, at_.number);
                core->timer_expired(epoch_);
            }
        }

    private:
        station& at_;
        std::weak_ptr<Core> core_;
        std::uint64_t epoch_;
    };

    simulation* world_;
    station* at_;
};

/// A `host` with a lock that counts.
class counting_host : public host {
public:
    using counting_mutex_type = counting_mutex;
    using host::host;
};

}  // namespace explorer
