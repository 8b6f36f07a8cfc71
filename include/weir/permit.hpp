#pragma once

#include <weir/amount.hpp>
#include <weir/outcome.hpp>
#include <weir/time.hpp>

#include <cstdint>
#include <optional>
#include <utility>

namespace weir {

class permit;

namespace detail {

/// Where a permit comes from: what its issuer wants to be told when it comes home. An issuer that limits
/// many clients finds the client's state by the key; one that limits all together has the key 0.
struct permit_origin {
    std::uint64_t ticket = 0;
    std::uint64_t key = 0;
};

/// What has issued a permit and takes it back: the core of a limiter, which lives for as long as a permit
/// is out.
class permit_issuer {
public:
    [[nodiscard]] static permit grant(permit_issuer& issuer, amount n, permit_origin from,
                                      duration waited) noexcept;
    [[nodiscard]] static permit reject(duration retry_after) noexcept;

    /// Who has issued `p`, or null; and what that one is to be told of `p`, which is empty afterwards.
    [[nodiscard]] static permit_issuer* of(permit const& p) noexcept;
    [[nodiscard]] static permit_origin give_up(permit& p) noexcept;

    /// The permit object goes: its `n` have been used, or have not.
    virtual void leave(amount n, permit_origin from) noexcept = 0;
    virtual void leave_unused(amount n, permit_origin from) noexcept = 0;
    /// The object stays: `n` of it have not been used, or `n` more than it had.
    virtual void refund(amount n, permit_origin from) noexcept = 0;
    /// The ticket of the whole.
    virtual std::uint64_t overdraw(amount n, amount held, permit_origin from) = 0;
    /// There is one object more, or one less.
    virtual void split(permit_origin from) noexcept = 0;
    /// The ticket of the whole. Both have the same key.
    virtual std::uint64_t merge(permit_origin into, permit_origin from, amount n) noexcept = 0;
    [[nodiscard]] virtual amount remaining(permit_origin from) const noexcept = 0;
    /// `forever` if no time can be named.
    [[nodiscard]] virtual duration reset_after(permit_origin from) const noexcept = 0;
    /// How it went so far. The ticket to be used from then on. Most do not want to know.
    virtual std::uint64_t report(permit_origin from, outcome) noexcept { return from.ticket; }
    [[nodiscard]] virtual bool is_lost(permit_origin) const noexcept { return false; }

protected:
    ~permit_issuer() = default;
};

}  // namespace detail

/// What a limiter grants: the right to go, which is given back when the permit is destroyed.
///
/// A permit leaves by itself when it is destroyed, so none is ever lost. It may be moved to, used in
/// and destroyed on any thread, after its limiter was closed, after the limiter object has gone and
/// after its execution context has gone. Two threads must not use one permit object at the same time.
///
/// An empty permit is what a rejection comes with: it holds nothing, but may know when to come back.
///
///     if (auto seat = kitchen.try_enter())
///         dine();
///     else if (auto wait = seat.retry_after())
///         come_back_in(*wait);
class [[nodiscard]] permit {
public:
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
    ~permit() { leave(); }

    void swap(permit& other) noexcept {
        std::swap(issuer_, other.issuer_);
        std::swap(count_, other.count_);
        std::swap(origin_, other.origin_);
        std::swap(time_, other.time_);
    }

    /// Whether something was granted and has not been given back. True of a grant of 0 as well.
    explicit operator bool() const noexcept { return issuer_ != nullptr; }

    /// How many permits this object stands for; 0 if empty.
    [[nodiscard]] amount count() const noexcept { return issuer_ ? count_ : 0; }

    /// Comes home: what it stands for has been used. Seats are free again; of a rate it stays used, and
    /// cools or is refilled as the rule says. The permit is empty afterwards; an empty one does
    /// nothing. The destructor does the same.
    ///
    /// This may make room for requests that wait. Then it posts their completion handlers to their
    /// executors from this thread, which may call the handlers' allocators; so does the destructor. It
    /// takes the limiter's lock, and never waits for a handler or for another thread's work.
    void leave() noexcept {
        if (issuer_)
            std::exchange(issuer_, nullptr)->leave(count_, origin_);
    }

    /// Comes home unused: as if it had never been granted, as far as the rule can undo that. Of a rate it
    /// makes room at once, unless it has cooled meanwhile and has made room already. For seats it is the
    /// same as `leave`, and in all else it is like it.
    void refund() noexcept {
        if (issuer_)
            std::exchange(issuer_, nullptr)->leave_unused(count_, origin_);
    }

    /// Says how it went, which an adaptive limiter wants to know: by that it moves the number of its seats. The
    /// last word before the permit comes home counts; without one it was a success. What is refunded has told
    /// nothing. To other limiters, and of an empty permit, it means nothing.
    void report(outcome o) noexcept {
        if (issuer_ && count_ != 0)
            origin_.ticket = issuer_->report(origin_, o);
    }

    /// Corrects the number of permits to what was used in truth. What was not used is given back at once,
    /// as by `refund`; what was used beyond the grant is taken now, even if that puts the limiter into
    /// debt, for which other requests have to wait. `count()` is `actual` afterwards.
    ///
    /// Precondition: not empty. Throws, changing nothing, `std::invalid_argument` if `actual` is above
    /// `max_amount`, `std::bad_alloc` if a debt cannot be noted, and `std::length_error` if more was used of a key of
    /// `keyed` that was forgotten, and for which there is no place.
    void settle(request actual);

    /// Takes `n` out of this permit, into another permit object.
    ///
    /// Precondition: not empty. Throws `std::invalid_argument` if `n > count()`.
    [[nodiscard]] permit split(request n);

    /// Takes over what `other` stands for; `other` is empty afterwards. Merging an empty permit does
    /// nothing, merging into an empty one moves.
    ///
    /// Throws `std::invalid_argument` if the two are from different limiters, or from different keys or partitions of one.
    void merge(permit&& other);

    /// How long the request has waited for its grant; 0 if it was granted at once.
    [[nodiscard]] duration waited() const noexcept {
        return issuer_ ? -time_ - duration(1) : duration::zero();
    }

    /// For a rejection: how long to stay away before it is worth asking again. Exact if no request was
    /// ahead; otherwise the time that holds if no request ahead gives up, or, where an order lets requests
    /// overtake, the least time that is sure. `queue_options::jitter` makes it longer. Absent if no time can be
    /// named, as for seats, and for a permit that was granted.
    [[nodiscard]] std::optional<duration> retry_after() const noexcept {
        return time_ < duration::zero() ? std::nullopt : if_known(time_);
    }

    /// How many more the limiter could grant right now if no request waited; 0 if this is empty. Takes the
    /// limiter's lock and, for a rate, reads the clock.
    [[nodiscard]] amount remaining() const noexcept {
        return issuer_ ? issuer_->remaining(origin_) : 0;
    }

    /// How long it takes until the limiter could grant at once the most that one request may ask for, if it
    /// grants nothing else meanwhile: a bucket is full then, and a log is empty. 0 if it could now. Absent if no
    /// time can be named, as for seats that are taken, and if this is empty. Takes the limiter's lock and, for a
    /// rate, reads the clock.
    [[nodiscard]] std::optional<duration> reset_after() const noexcept {
        return if_known(issuer_ ? issuer_->reset_after(origin_) : forever);
    }

    /// Whether what it stands for has been taken away, which happens to `shared_seats` only: then somebody else may
    /// have it already. It stays so. Takes the limiter's lock and reads the clock.
    [[nodiscard]] bool lost() const noexcept { return issuer_ && issuer_->is_lost(origin_); }

    /// What `overdue::id` calls this permit, and of `shared_seats` the fence. Parts of a permit that was split share it.
    [[nodiscard]] std::uint64_t id() const noexcept { return origin_.ticket; }

private:
    friend detail::permit_issuer;

    permit(detail::permit_issuer* issuer, amount count, detail::permit_origin from,
           duration time) noexcept
        : issuer_(issuer), count_(count), origin_(from), time_(time) {}

    detail::permit_issuer* issuer_ = nullptr;
    amount count_ = 0;  // meaningless if empty
    detail::permit_origin origin_;
    duration time_ =
        forever;  // of a rejection: when to come back; of a grant: -1 - how long it took
};

inline permit detail::permit_issuer::grant(permit_issuer& issuer, amount n, permit_origin from,
                                           duration waited) noexcept {
    return {&issuer, n, from, -waited - duration(1)};
}

inline permit detail::permit_issuer::reject(duration retry_after) noexcept {
    return {nullptr, 0, {}, retry_after};
}

inline detail::permit_issuer* detail::permit_issuer::of(permit const& p) noexcept {
    return p.issuer_;
}

inline detail::permit_origin detail::permit_issuer::give_up(permit& p) noexcept {
    p.issuer_ = nullptr;
    return p.origin_;
}

}  // namespace weir
