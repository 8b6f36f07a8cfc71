#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace weir::detail {

/// What keeps an actor and its host: the limiter object, permits, and the threads that are at work for it outside
/// its lock. It owns both, and decides when each of them goes. All members are called under the lock, but the host
/// is used by threads that are at work.
///
/// | phase       | begins when                          | the host  | what is left to come           |
/// |-------------|--------------------------------------|-----------|--------------------------------|
/// | `in_use`    | the limiter is made                  | is there  | everything                     |
/// | `abandoned` | the limiter object is destroyed      | is there  | the last completions           |
/// | `dead`      | abandoned and nothing is left to do, | is gone   | permits, which do arithmetic   |
/// |             | or the execution context ends        |           | only                           |
template <class Actor, class Host>
class lifetime {
public:
    /// What is left in the actor.
    struct rest {
        bool work;        // there is or will be something to do
        bool operations;  // which wait, or are over
        bool permits;     // which are out
    };
    /// What has come to its end: to be destroyed outside the lock.
    struct remains {
        std::shared_ptr<Actor> self;  // first, so that it goes last
        std::optional<Host> host;
    };

    template <class... HostArgs>
    void make_host(HostArgs&&... args) {
        host_.emplace(std::forward<HostArgs>(args)...);
    }
    [[nodiscard]] Host& host() noexcept { return *host_; }
    /// From now on the actor keeps itself.
    void begin(std::shared_ptr<Actor> self) noexcept { self_ = std::move(self); }

    [[nodiscard]] bool is_in_use() const noexcept { return phase_ == phase::in_use; }
    [[nodiscard]] bool is_dead() const noexcept { return phase_ == phase::dead; }

    /// The limiter object has gone.
    void abandon() noexcept {
        if (phase_ == phase::in_use)
            phase_ = phase::abandoned;
    }

    /// A thread goes to work outside the lock; the actor and the context must outlive that.
    void work_begins() noexcept { ++workers_; }
    void work_ends() noexcept { --workers_; }
    [[nodiscard]] bool is_at_work() const noexcept { return workers_ != 0; }

    /// After anything that may have been the last: takes away what nobody needs any more. Whether that was the
    /// host; then it must be asked again when that has been destroyed.
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

    /// The context ends. Whether its thread must wait, without the lock, until `nobody_works` is set; in any
    /// case `context_has_ended` must follow.
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
        // A permit of several limiters may have come home meanwhile, and its thread has to come back.
        if (!left.permits && !is_at_work())
            to.self = std::move(self_);
    }

private:
    enum class phase : std::uint8_t { in_use, abandoned, dead };

    phase phase_ = phase::in_use;
    std::uint32_t workers_ = 0;
    std::shared_ptr<Actor> self_;  // until dead, and while permits are out
    std::optional<Host> host_;
    typename Host::event_type* nobody_works_ = nullptr;  // the end of the context waits for it
};

}  // namespace weir::detail
