#pragma once

#include <weir/amount.hpp>
#include <weir/time.hpp>

#include <cstdint>
#include <optional>
#include <utility>

namespace weir {

class permit;

namespace detail {

/// Where a permit comes home to: the limiter's core, which lives for as long as a permit is out.
class permit_home {
public:
    [[nodiscard]] static permit grant(permit_home& home, amount n, std::uint64_t ticket,
                                      duration waited) noexcept;
    [[nodiscard]] static permit refuse(duration retry_after) noexcept;

    virtual void leave(amount n, std::uint64_t ticket) noexcept = 0;
    virtual void refund(amount n, std::uint64_t ticket) noexcept = 0;
    virtual std::uint64_t overdraw(amount n, amount held, std::uint64_t ticket) = 0;
    virtual void split() noexcept = 0;
    virtual std::uint64_t merge(std::uint64_t into, std::uint64_t from, amount n) noexcept = 0;
    [[nodiscard]] virtual amount remaining() const noexcept = 0;

protected:
    ~permit_home() = default;
};

}  // namespace detail

/// The right to go, and the duty to come back: what a limiter grants.
///
/// A permit leaves by itself when it is destroyed, so none is ever lost. It may be moved to, used in
/// and destroyed on any thread, after its limiter was closed, after the limiter object has gone and
/// after its execution context has gone. One permit object is not for several threads at a time.
///
/// An empty permit is what a refusal comes with: it holds nothing, but may know when to come back.
///
///     if (auto seat = kitchen.try_enter())
///         dine();
///     else if (auto wait = seat.retry_after())
///         come_back_in(*wait);
class [[nodiscard]] permit {
public:
    permit() noexcept = default;
    permit(permit&& other) noexcept
        : home_(std::exchange(other.home_, nullptr)),
          count_(other.count_),
          ticket_(other.ticket_),
          time_(other.time_) {}
    permit& operator=(permit&& other) noexcept {
        permit(std::move(other)).swap(*this);
        return *this;
    }
    ~permit() { leave(); }

    void swap(permit& other) noexcept {
        std::swap(home_, other.home_);
        std::swap(count_, other.count_);
        std::swap(ticket_, other.ticket_);
        std::swap(time_, other.time_);
    }

    /// Whether something was granted and has not been given back. True of a grant of 0 as well.
    explicit operator bool() const noexcept { return home_ != nullptr; }

    /// How many permits this object stands for; 0 if empty.
    [[nodiscard]] amount count() const noexcept { return home_ ? count_ : 0; }

    /// Gives everything back, and makes this object empty. Does nothing to an empty one.
    void leave() noexcept {
        if (home_)
            std::exchange(home_, nullptr)->leave(count_, ticket_);
    }

    /// Corrects the price to what it was in truth. What was not used is given back at once, as if it
    /// had never been taken; what was used beyond the grant is taken now, even if that puts the
    /// limiter into debt, so that others wait for it. `count()` is `actual` afterwards.
    ///
    /// Precondition: not empty. Throws, changing nothing, `std::invalid_argument` if `actual` is above
    /// `max_amount`, and `std::bad_alloc` if a debt cannot be noted.
    void settle(request actual);

    /// Takes `n` out of this permit into one of their own.
    ///
    /// Precondition: not empty. Throws `std::invalid_argument` if `n > count()`.
    [[nodiscard]] permit split(request n);

    /// Takes over what `other` stands for; `other` is empty afterwards. Merging an empty permit does
    /// nothing, merging into an empty one moves.
    ///
    /// Throws `std::invalid_argument` if the two are from different limiters.
    void merge(permit&& other);

    /// How long the request has waited for its grant; 0 if it was granted at once.
    [[nodiscard]] duration waited() const noexcept {
        return home_ ? -time_ - duration(1) : duration::zero();
    }

    /// For a refusal: how long to stay away before it is worth asking again. Exact if nobody was
    /// ahead, otherwise the time that holds if nobody ahead gives up. Absent if no time can be named,
    /// as for seats, and for a permit that was granted.
    [[nodiscard]] std::optional<duration> retry_after() const noexcept {
        return time_ < duration::zero() || time_ == forever ? std::nullopt : std::optional(time_);
    }

    /// How many more the limiter could grant right now if nobody waited; 0 if this is empty.
    [[nodiscard]] amount remaining() const noexcept { return home_ ? home_->remaining() : 0; }

    /// What `overdue::id` calls this permit. Parts of a permit that was split share it.
    [[nodiscard]] std::uint64_t id() const noexcept { return ticket_; }

private:
    friend detail::permit_home;

    permit(detail::permit_home* home, amount count, std::uint64_t t, duration time) noexcept
        : home_(home), count_(count), ticket_(t), time_(time) {}

    detail::permit_home* home_ = nullptr;
    amount count_ = 0;  // meaningless if empty
    std::uint64_t ticket_ = 0;
    duration time_ = forever;  // of a refusal: when to come back; of a grant: -1 - how long it took
};

inline permit detail::permit_home::grant(permit_home& home, amount n, std::uint64_t t,
                                         duration waited) noexcept {
    return {&home, n, t, -waited - duration(1)};
}

inline permit detail::permit_home::refuse(duration retry_after) noexcept {
    return {nullptr, 0, 0, retry_after};
}

}  // namespace weir
