#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace weir::inline v0_2::detail {

/// Tracks the users that keep an actor and its host alive: the limiter object, permits, and the threads that work for
/// it outside its lock. It owns actor and host, and decides when each of them is destroyed. All members are called
/// under the lock, but working threads use the host outside it.
///
/// | phase       | begins when                          | the host  | remaining events               |
/// |-------------|--------------------------------------|-----------|--------------------------------|
/// | `in_use`    | the limiter is made                  | exists    | all                            |
/// | `abandoned` | the limiter object is destroyed      | exists    | the last completions           |
/// | `dead`      | abandoned and nothing is left to do, | is gone   | releases of permits, which do  |
/// |             | or the execution context ends        |           | only arithmetic                |
template <class Actor, class Host>
class lifetime {
public:
    /// The parts that an actor still has.
    struct rest {
        bool work;        // some work is or will be due
        bool operations;  // some are waiting or not yet destroyed
        bool permits;     // some are not released
    };
    /// Objects whose life has ended, to be destroyed outside the lock.
    struct remains {
        std::shared_ptr<Actor> self;  // first, to be destroyed last
        std::optional<Host> host;
    };

    template <class... HostArgs>
    void make_host(HostArgs&&... args) {
        host_.emplace(std::forward<HostArgs>(args)...);
    }
    [[nodiscard]] Host& host() noexcept { return *host_; }
    /// Makes the actor own itself from now on.
    void begin(std::shared_ptr<Actor> self) noexcept { self_ = std::move(self); }

    [[nodiscard]] bool is_in_use() const noexcept { return phase_ == phase::in_use; }
    [[nodiscard]] bool is_dead() const noexcept { return phase_ == phase::dead; }

    /// Records that the limiter object was destroyed.
    void abandon() noexcept {
        if (phase_ == phase::in_use)
            phase_ = phase::abandoned;
    }

    /// Counts a thread that begins to work outside the lock; the actor and the context must outlive its work.
    void work_begins() noexcept { ++workers_; }
    void work_ends() noexcept { --workers_; }
    [[nodiscard]] bool is_at_work() const noexcept { return workers_ != 0; }

    /// Moves objects without users into `to`. Call it after any event that may have been the last one. Returns whether
    /// the host was moved; if so, call it again after the host was destroyed.
    [[nodiscard]] bool let_go(rest const& left, remains& to) noexcept {
        if (is_at_work())
            return false;
        if (phase_ == phase::abandoned && !left.work) {
            phase_ = phase::dead;
            to.host.swap(host_);
            return true;
        }
        if (is_dead() && !left.operations) {
            if (nobody_works_)
                nobody_works_->set();
            else if (!left.permits && !host_)
                to.self = std::move(self_);
        }
        return false;
    }

    /// Begins the end of the context. Returns whether its thread must wait, without the lock, until `nobody_works` is
    /// set. In any case `context_has_ended` must follow.
    [[nodiscard]] bool context_ends(rest const& left,
                                    typename Host::event_type& nobody_works) noexcept {
        phase_ = phase::dead;
        bool const waits = is_at_work() || left.operations;
        if (waits)
            nobody_works_ = &nobody_works;
        return waits;
    }
    void context_has_ended(rest const& left, remains& to) noexcept {
        nobody_works_ = nullptr;
        to.host.swap(host_);
        // Meanwhile a permit of several limiters may have been released, and its thread is still to return here.
        if (!left.permits && !is_at_work())
            to.self = std::move(self_);
    }

private:
    enum class phase : std::uint8_t { in_use, abandoned, dead };

    phase phase_ = phase::in_use;
    std::uint32_t workers_ = 0;
    std::shared_ptr<Actor> self_;  // until dead and all permits are released
    std::optional<Host> host_;
    typename Host::event_type* nobody_works_ = nullptr;  // the end of the context waits for it
};

}  // namespace weir::inline v0_2::detail
