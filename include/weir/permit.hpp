#pragma once

#include <weir/amount.hpp>
#include <weir/detail/rejected.hpp>
#include <weir/limiter_name.hpp>
#include <weir/outcome.hpp>
#include <weir/time.hpp>

#include <bit>
#include <cstdint>
#include <optional>
#include <utility>

namespace weir::inline v0_2 {

class permit;

namespace detail {

/// The values that a permit passes back to its issuer on release. An issuer with a state per key finds that state by
/// `key`; an issuer with one state uses key 0.
struct permit_origin {
    std::uint64_t ticket = 0;
    std::uint64_t key = 0;

    friend bool operator==(permit_origin const&, permit_origin const&) noexcept = default;
};

/// Issues permits and takes them back: the core of a limiter, which exists while a permit is in use.
class permit_issuer {
public:
    [[nodiscard]] static permit grant(permit_issuer& issuer, amount n, permit_origin from,
                                      duration waited) noexcept;
    [[nodiscard]] static permit reject(rejected const& what) noexcept;
    [[nodiscard]] static permit reject(duration retry_after) noexcept;
    /// Returns the argument of `reject`; the default if `p` is not a rejection.
    [[nodiscard]] static rejected rejected_of(permit const& p) noexcept;

    /// Returns the issuer of `p`, or null.
    [[nodiscard]] static permit_issuer* of(permit const& p) noexcept;
    /// Returns the origin of `p`, which is not empty.
    [[nodiscard]] static permit_origin origin_of(permit const& p) noexcept;
    /// Returns the origin of `p` and empties `p`.
    [[nodiscard]] static permit_origin give_up(permit& p) noexcept;

    /// The permit object ends, and its `n` permits were used.
    virtual void leave(amount n, permit_origin from) noexcept = 0;
    /// The permit object ends, and its `n` permits were not used.
    virtual void leave_unused(amount n, permit_origin from) noexcept = 0;
    /// The permit object stays, and `n` of its permits were not used.
    virtual void refund(amount n, permit_origin from) noexcept = 0;
    /// The permit object stays, and takes `n` more permits. Returns the ticket of the whole.
    virtual std::uint64_t overdraw(amount n, amount held, permit_origin from) = 0;
    /// One permit object becomes two.
    virtual void split(permit_origin from) noexcept = 0;
    /// Two permit objects with the same key become one. Returns the ticket of the whole.
    virtual std::uint64_t merge(permit_origin into, permit_origin from, amount n) noexcept = 0;
    [[nodiscard]] virtual amount remaining(permit_origin from) const noexcept = 0;
    /// Returns `forever` if the time is unknown.
    [[nodiscard]] virtual duration reset_after(permit_origin from) const noexcept = 0;
    /// Receives the outcome of the work. Returns the ticket to use from then on. Most issuers ignore it.
    virtual std::uint64_t report(permit_origin from, outcome) noexcept { return from.ticket; }
    [[nodiscard]] virtual bool is_lost(permit_origin) const noexcept { return false; }
    /// Returns whether its permits are counted.
    [[nodiscard]] virtual bool counts() const noexcept { return true; }

protected:
    ~permit_issuer() = default;
};

}  // namespace detail

/// The permits that a limiter granted to a request. The destructor releases them.
///
///     if (auto seat = workers.try_enter())
///         process();
///     else if (auto wait = seat.retry_after())
///         retry_in(*wait);
///
/// A permit may be moved to, used on and destroyed on any thread, also after its limiter was closed, and after the
/// limiter object or its execution context was destroyed. Two threads must not use one permit object at the same time.
///
/// A rejection comes with an empty permit: it holds nothing, but may have a `retry_after`.
class [[nodiscard]] permit {
public:
    /// An empty permit.
    permit() noexcept = default;
    permit(permit&& other) noexcept
        : issuer_(std::exchange(other.issuer_, nullptr)),
          count_(other.count_),
          origin_(other.origin_),
          time_(other.time_) {}
    permit& operator=(permit&& other) noexcept {
        permit(std::move(other)).swap(*this);
        return *this;
    }
    /// Releases the permits, as used.
    ~permit() { leave(); }

    /// Exchanges the permits with the permits of `other`.
    void swap(permit& other) noexcept {
        std::swap(issuer_, other.issuer_);
        std::swap(count_, other.count_);
        std::swap(origin_, other.origin_);
        std::swap(time_, other.time_);
    }

    /// Returns whether it holds permits that are not released. This is also true for a grant of 0.
    explicit operator bool() const noexcept { return issuer_ != nullptr; }

    /// Returns the number of permits; 0 if this is empty.
    [[nodiscard]] amount count() const noexcept { return issuer_ ? count_ : 0; }

    /// Releases the permits as used: seats become free, and a rate keeps counting the permits until they expire or are
    /// refilled. The permit is empty afterwards; an empty one does nothing. The destructor does this too.
    ///
    /// The release may let the limiter grant waiting requests. Then this thread posts their completion handlers to
    /// their executors, which may call the handlers' allocators. The release takes the limiter's lock, and never waits
    /// for a handler or for another thread's work.
    void leave() noexcept {
        if (issuer_)
            std::exchange(issuer_, nullptr)->leave(count_, origin_);
    }

    /// Releases the permits as unused: the limiter undoes the grant as far as its rule can. A rate forgets the permits
    /// immediately, unless they have already expired. For seats this is `leave`, and otherwise it works like `leave`.
    void refund() noexcept {
        if (issuer_)
            std::exchange(issuer_, nullptr)->leave_unused(count_, origin_);
    }

    /// Reports the outcome of the work to an adaptive limiter, which changes the number of its seats by it. The last
    /// report before the release counts; the default is a success. After a `refund` no outcome counts. Other limiters,
    /// and an empty permit, ignore it.
    void report(outcome o) noexcept {
        if (issuer_ && count_ != 0)
            origin_.ticket = issuer_->report(origin_, o);
    }

    /// Corrects the number of permits to the amount that was used; `count()` is `actual` afterwards.
    ///
    /// Unused permits are refunded immediately. Permits used beyond the grant are taken now, even if this puts the
    /// limiter into debt, for which other requests have to wait.
    ///
    /// An empty permit ignores it. `charge` returns one after `close`, so a program that shuts down needs no check.
    ///
    /// @throws std::invalid_argument if `actual` exceeds `max_amount`
    /// @throws std::bad_alloc if a debt cannot be recorded
    /// @throws std::length_error if more was used of a key of `keyed` that was forgotten, and the limiter cannot keep
    ///   it again; after an exception nothing has changed
    template <detail::number T>
    void settle(T actual) {
        settle_to(detail::checked_amount(actual, "settle to"));
    }

    /// Moves `n` permits from this object into another permit object.
    ///
    /// If this is empty, so is the result, whatever `n` is.
    ///
    /// @throws std::invalid_argument if this is not empty and `n > count()`
    template <detail::number T>
    [[nodiscard]] permit split(T n) {
        return split_off(detail::checked_amount(n, "split off"));
    }

    /// Moves the permits of `other` into this object; `other` is empty afterwards. If `other` is empty, nothing
    /// happens; if this is empty, `other` is moved here.
    ///
    /// @throws std::invalid_argument if the two are from different limiters, or from different keys or partitions of
    ///   one limiter
    void merge(permit&& other);

    /// Returns the wait of the request; 0 if it was granted immediately. For a part of a chain, it is the time that the
    /// chain spent in the queue of this limiter.
    [[nodiscard]] duration waited() const noexcept {
        return issuer_ ? -time_ - duration(1) : duration::zero();
    }

    /// Returns, for a rejection, the time until a retry is useful.
    ///
    /// The time is exact if no request was ahead. Otherwise it assumes that no request ahead leaves the queue
    /// ungranted; where an order lets requests overtake, it is the shortest certain time. `queue_options::jitter` makes
    /// it longer. Absent if it is unknown, as for seats, and for a granted permit.
    [[nodiscard]] std::optional<duration> retry_after() const noexcept {
        return if_known(detail::permit_issuer::rejected_of(*this).retry_after);
    }

    /// Returns, for a rejection, the name of the limiter: `queue_options::name`. Empty if it has none, and for a granted
    /// permit.
    [[nodiscard]] limiter_name limiter() const noexcept {
        return detail::permit_issuer::rejected_of(*this).by;
    }

    /// Returns the number of permits that the limiter could grant now if no request waited; 0 if this is empty. Takes
    /// the limiter's lock and, for a rate, reads the clock.
    [[nodiscard]] amount remaining() const noexcept {
        return issuer_ ? issuer_->remaining(origin_) : 0;
    }

    /// Returns the time until the limiter could grant its capacity immediately, if it grants nothing before: then a
    /// bucket is full and a log is empty. 0 if it could now. Absent if it is unknown, as for seats in use, and if this
    /// is empty. Takes the limiter's lock and, for a rate, reads the clock.
    [[nodiscard]] std::optional<duration> reset_after() const noexcept {
        return if_known(issuer_ ? issuer_->reset_after(origin_) : forever);
    }

    /// Returns whether the lease of a seat of `shared_seats` ended: another holder may have the seat already. This is
    /// final. Permits of other limiters are never lost. Takes the limiter's lock and reads the clock.
    [[nodiscard]] bool lost() const noexcept { return issuer_ && issuer_->is_lost(origin_); }

    /// Returns the number of this permit in `overdue::id`; for `shared_seats`, the fencing token. Parts of a split
    /// permit share it. 0 if this is empty.
    [[nodiscard]] std::uint64_t id() const noexcept { return issuer_ ? origin_.ticket : 0; }

private:
    friend detail::permit_issuer;

    permit(detail::permit_issuer* issuer, amount count, detail::permit_origin from,
           duration time) noexcept
        : issuer_(issuer), count_(count), origin_(from), time_(time) {}

    // The last member of a grant is -1 - its wait. A permit that was never granted stores a `rejected` in the other three: the
    // capacity + 1, or 0; the name; the permits of the request if there is a capacity, or else `retry_after`.
    void settle_to(amount n);
    [[nodiscard]] permit split_off(amount n);

    detail::permit_issuer* issuer_ = nullptr;
    amount count_ = 0;
    detail::permit_origin origin_;
    duration time_ = forever;
};

inline permit detail::permit_issuer::grant(permit_issuer& issuer, amount n, permit_origin from,
                                           duration waited) noexcept {
    return {&issuer, n, from, -waited - duration(1)};
}

inline permit detail::permit_issuer::reject(rejected const& what) noexcept {
    static_assert(sizeof(limiter_name) == sizeof(permit_origin));
    auto const name = std::bit_cast<permit_origin>(what.by);
    if (what.requested == 0)
        return {nullptr, 0, name, what.retry_after};
    return {nullptr, what.capacity + 1, name, duration(what.requested)};
}

inline permit detail::permit_issuer::reject(duration retry_after) noexcept {
    return reject(rejected{.retry_after = retry_after});
}

inline detail::rejected detail::permit_issuer::rejected_of(permit const& p) noexcept {
    if (p.time_ < duration::zero())
        return {};
    rejected what{.by = std::bit_cast<limiter_name>(p.origin_)};
    if (p.count_ == 0) {
        what.retry_after = p.time_;
    } else {
        what.requested = p.time_.count();
        what.capacity = p.count_ - 1;
    }
    return what;
}

inline detail::permit_issuer* detail::permit_issuer::of(permit const& p) noexcept {
    return p.issuer_;
}

inline detail::permit_origin detail::permit_issuer::origin_of(permit const& p) noexcept {
    return p.origin_;
}

inline detail::permit_origin detail::permit_issuer::give_up(permit& p) noexcept {
    p.issuer_ = nullptr;
    return p.origin_;
}

}  // namespace weir::inline v0_2
