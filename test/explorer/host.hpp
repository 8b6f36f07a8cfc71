#pragma once

#include <weir/detail/context_user.hpp>

#include "simulation.hpp"

#include <memory>
#include <utility>

namespace explorer {

/// A lock at which threads take turns.
class mutex {
public:
    mutex() = default;
    mutex(mutex const&) = delete;
    mutex& operator=(mutex const&) = delete;
    void lock() { simulation::current().lock(owner_); }
    void unlock() { simulation::current().unlock(owner_); }

private:
    scheduler::thread* owner_ = nullptr;
};

/// Something that one thread waits for and another one does.
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

/// What a core runs on: the simulation.
class host {
public:
    using mutex_type = mutex;
    using event_type = event;

    explicit host(simulation& world) : world_(&world) { world.host_is_made(); }
    host(host&& other) noexcept : world_(std::exchange(other.world_, nullptr)) {}
    host& operator=(host&& other) noexcept {
        std::swap(world_, other.world_);
        return *this;
    }
    ~host() {
        if (world_)
            world_->host_goes();
    }

    [[nodiscard]] static time_point now() noexcept { return simulation::current().threads.now(); }

    void attach(std::weak_ptr<weir::detail::context_user> who) { attached() = std::move(who); }

    /// Whom the end of the context ends.
    [[nodiscard]] static std::weak_ptr<weir::detail::context_user>& attached() {
        static std::weak_ptr<weir::detail::context_user> who;
        return who;
    }

    template <class Core>
    void post(std::shared_ptr<Core> core) {
        simulation::unfailing const ours;
        world_->post_step(std::make_unique<step<Core>>(std::move(core)));
    }

    template <class Core>
    void arm(std::weak_ptr<Core> core, time_point at, std::uint64_t epoch) {
        simulation::unfailing const ours;
        world_->set_timer(at, [=] { return std::make_unique<timer_callback<Core>>(core, epoch); });
    }

    void disarm() { world_->set_timer(weir::never, nullptr); }

    void hold(bool keep) { world_->hold(keep); }

private:
    template <class Core>
    class step final : public message {
    public:
        explicit step(std::shared_ptr<Core> core) : core_(std::move(core)) {}
        ~step() override {
            simulation::calls const c(call::kind::other);
            core_.reset();
        }
        void run() override {
            auto const core = std::move(core_);
            simulation::current().step_begins();
            simulation::current().say("step");
            simulation::calls const c(call::kind::step);
            core->step();
        }

    private:
        std::shared_ptr<Core> core_;
    };

    template <class Core>
    class timer_callback final : public message {
    public:
        timer_callback(std::weak_ptr<Core> core, std::uint64_t epoch)
            : core_(std::move(core)), epoch_(epoch) {}
        void run() override {
            if (auto const core = core_.lock()) {
                simulation::current().say("step, for the timer");
                simulation::calls const c(call::kind::step);
                core->timer_expired(epoch_);
            }
        }

    private:
        std::weak_ptr<Core> core_;
        std::uint64_t epoch_;
    };

    simulation* world_;
};

}  // namespace explorer
