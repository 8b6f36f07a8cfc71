#pragma once

#include <weir/policy/backoff.hpp>
#include <weir/policy/hold_watch.hpp>
#include <weir/policy/policy.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

namespace weir {

/// Which of the idle objects is used next.
enum class reuse : std::uint8_t {
    /// The one that came back last: it is warm, and what is not needed stays idle and is trimmed.
    most_recent,
    /// The one that has been idle longest: all are used alike.
    least_recent,
};

/// What a `pool` keeps, and for how long.
struct pool_options {
    /// How many objects there should be even if nobody asks, 0 to `max`. They are made in the
    /// background.
    amount min = 0;

    /// The most objects that ever exist at a time, those that are being made included: 1 to `max_amount`;
    /// at most 16,777,216 where `max_hold` is set.
    amount max = 10;

    /// Which idle object is used next. One that needs no check goes first.
    reuse order = reuse::most_recent;

    /// How old an object may become, at least 1 ns: an older one is destroyed instead of being handed out.
    duration max_age = forever;

    /// For how long an object beyond `min` should be idle at most, at least 1 ns. One that has been idle
    /// for longer is destroyed when the pool is next used, or by `trim`.
    duration max_idle = forever;

    /// An object that has been idle for so long is checked before it is handed out, if the pool has a
    /// check; 0 checks it each time. One that has just been made is not checked.
    duration check_after = std::chrono::seconds(30);

    /// How long a check may take, at least 1 ns. Then it is cancelled, and the object counts as broken.
    duration check_within = std::chrono::seconds(5);

    /// How long the making of one object may take, at least 1 ns. Then it is cancelled, and has failed.
    duration make_within = std::chrono::seconds(30);

    /// How long to wait after a failure before an object is made again.
    backoff_options retry = {};

    /// For how long one lease should be held at most, at least 1 ns. One that is held for longer is
    /// reported once, by `async_wait_overdue`; nothing is taken away from its holder.
    duration max_hold = forever;
};

/// Throws `std::invalid_argument`, naming the option, the value and the bound, if one is nonsense.
void validate(pool_options const& options);

namespace policy {

/// Sees to it that something is in stock.
class stock_keeper {
public:
    /// Something has changed that may have to be seen to. From any thread; under no lock.
    virtual void look() noexcept = 0;

protected:
    ~stock_keeper() = default;
};

/// The rule of a pool: `seats` with objects on them. A permit is the right to the one object that is its
/// ticket; there is room while an object is idle that may be handed out as it is.
///
/// What happens to objects is told under the limiter's lock, but nothing of a user is called or destroyed
/// there: an item is emptied by its owner, which is its permit, or the caller that has taken it out.
/// Guarantee: never more than `max` objects are idle, out, being checked, made or destroyed.
/// Memory: one item for each object.
class stock {
public:
    struct options_type {
        pool_options pool = {};
        bool checks = false;  // whether objects can be checked
        time_point (*clock)() noexcept = nullptr;
    };

    struct shelf;

    /// A place for one object.
    class item {
    public:
        item() = default;
        item(item const&) = delete;
        item& operator=(item const&) = delete;
        virtual ~item() = default;

        [[nodiscard]] static item& of(ticket t) noexcept {
            return *reinterpret_cast<item*>(static_cast<std::uintptr_t>(t));
        }
        [[nodiscard]] ticket as_ticket() const noexcept {
            return static_cast<ticket>(reinterpret_cast<std::uintptr_t>(this));
        }

        /// Destroys the object, if there is one.
        virtual void empty() noexcept = 0;

        /// What `overdue::id` calls the permit that holds this.
        [[nodiscard]] ticket watched_as() const noexcept { return watch_; }

        /// Whether more than a permit has to come home: see `come_home`.
        [[nodiscard]] bool needs_care() const noexcept;

        // Called by its owner before the permit leaves: the object may be destroyed by them. They return
        // the keeper if it has to look afterwards.

        /// It comes home.
        [[nodiscard]] std::shared_ptr<stock_keeper> come_home() noexcept;
        /// It is broken.
        [[nodiscard]] std::shared_ptr<stock_keeper> discard() noexcept;

    private:
        friend stock;
        friend shelf;
        enum class fate : std::uint8_t { stays, discarded, retired };

        void go(fate why) noexcept;

        shelf* shelf_ = nullptr;
        item* newer_ = nullptr;
        item* older_ = nullptr;
        time_point since_{};  // it has been idle
        time_point made_{};
        ticket watch_ = 0;
        fate fate_ = fate::stays;
        bool proven_ = false;  // made or checked at this moment
    };

    /// How many objects there are, and what has become of them.
    struct counts {
        amount idle = 0;
        amount in_use = 0;
        amount being_checked = 0;
        amount being_made = 0;
        amount leaving = 0;  // being destroyed

        std::uint64_t made = 0;
        std::uint64_t failed = 0;     // attempts to make one
        std::uint64_t discarded = 0;  // by those who had them
        std::uint64_t unhealthy = 0;  // as the check has said
        std::uint64_t retired = 0;    // too old, idle for too long, or closed

        [[nodiscard]] amount objects() const noexcept {
            return idle + in_use + being_checked + being_made + leaving;
        }
    };

    explicit stock(options_type const& options);
    stock(stock&&) noexcept;
    stock& operator=(stock&&) noexcept;
    ~stock();

    // As a policy.

    static void begin(time_point) noexcept {}
    /// The options of a pool never change.
    void take_over(stock& before, time_point) noexcept;
    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    [[nodiscard]] amount capacity() const noexcept { return options_.pool.max; }
    [[nodiscard]] bool timed() const noexcept { return timed_; }
    [[nodiscard]] amount remaining(time_point now) const noexcept;
    [[nodiscard]] time_point ready_at(amount, amount ahead, time_point now) const noexcept {
        return ahead == 0 && next(now) ? now : unknown;
    }
    /// There must be room.
    ticket take(amount, time_point now) noexcept;
    bool leave(amount, ticket t) noexcept;
    bool refund(amount n, ticket t, time_point) noexcept { return leave(n, t); }
    /// A lease is never split, so there is nothing to merge.
    static ticket merge(ticket a, ticket, amount) noexcept { return a; }
    [[nodiscard]] time_point next_overdue() const noexcept;
    [[nodiscard]] std::optional<overdue> pop_overdue(time_point now) noexcept;

    // For the keeper.

    /// The shelf stays where it is for as long as the stock lives.
    shelf const& kept_by(std::weak_ptr<stock_keeper> keeper) noexcept;
    [[nodiscard]] counts const& count() const noexcept;

    /// Takes out an idle object that is to be destroyed, because it is too old, or for too long idle and
    /// beyond `min`; null if there is none.
    [[nodiscard]] item* take_old(time_point now) noexcept;
    /// Takes out any idle object, to be destroyed.
    [[nodiscard]] item* take_any() noexcept;
    /// Takes out an idle object that has to be checked.
    [[nodiscard]] item* take_unchecked(time_point now) noexcept;
    /// Whether one more may be made; then it counts.
    [[nodiscard]] bool reserve() noexcept;
    /// When the next idle object will be too old or idle for too long.
    void plan_trim() noexcept;
    /// Whether there are fewer than `min`: then the keeper looks when an object comes home.
    void note_shortage(bool shut_down) noexcept;

    // Of what was taken out.

    /// The object has been made; the item belongs to the stock from now on.
    void add_made(item& i, time_point now) noexcept;
    /// The check was passed: likewise.
    void add_checked(item& i, time_point now) noexcept;
    /// What was just made or checked for a request, and is idle all the same, is like any other.
    void forget_checks() noexcept;
    /// The check was not passed: a new object is being made in its place.
    void fail_check() noexcept;
    /// The check never ended, and the object has been destroyed.
    void drop_unchecked() noexcept;
    /// An attempt to make one has failed.
    void has_failed() noexcept;
    /// Nothing is being made any more.
    void give_up() noexcept;
    /// It has been destroyed.
    void gone() noexcept;

    /// From now on what comes home is destroyed, except what is on its way.
    void close() noexcept;
    [[nodiscard]] bool is_closed() const noexcept;

private:
    [[nodiscard]] bool is_fit(item const& i, time_point now) const noexcept;
    [[nodiscard]] bool is_too_old(item const& i, time_point now) const noexcept;
    [[nodiscard]] item* next(time_point now) const noexcept;
    void add(item& i, time_point now) noexcept;
    void forget_check(item& i) noexcept;
    void push(item& i) noexcept;
    item& pop(item& i) noexcept;
    item& take_out(item& i) noexcept;

    options_type options_;
    bool timed_ = false;
    std::unique_ptr<shelf> shelf_;
    hold_watch watch_;
};

/// What is shared with items that are out. All but the atomic members under the limiter's lock.
struct stock::shelf {
    explicit shelf(options_type const& options) noexcept;
    shelf(shelf const&) = delete;
    shelf& operator=(shelf const&) = delete;
    ~shelf();

    pool_options options;
    time_point (*clock)() noexcept;  // null if the time is not needed
    bool checks_each_time;
    bool grows_stale;  // what is idle may not be handed out as it is
    std::atomic<bool> needs_care;
    std::atomic<bool> closed = false;
    std::atomic<bool> shortage = false;
    std::atomic<amount> objects = 0;  // as they are counted below
    // No idle object has to be trimmed before.
    std::atomic<duration::rep> trim_at = never.time_since_epoch().count();
    std::weak_ptr<stock_keeper> keeper;

    // The idle ones, in the order in which they came.
    item* newest = nullptr;
    item* oldest = nullptr;
    counts count;
    amount proven = 0;  // how many of the idle ones

    /// Whether the keeper has to look when a request waits: there is something to make, check or trim.
    [[nodiscard]] bool concerns_keeper() const noexcept {
        return grows_stale || objects.load(std::memory_order_relaxed) < options.max;
    }
    void decide_care() noexcept {
        needs_care.store(clock || checks_each_time || closed.load() || shortage.load(),
                         std::memory_order_relaxed);
    }
    [[nodiscard]] time_point end_of(item const& i) const noexcept;
    void trim_no_later_than(time_point t) noexcept;
};

inline bool stock::item::needs_care() const noexcept {
    return shelf_->needs_care.load(std::memory_order_relaxed);
}

inline bool stock::is_too_old(item const& i, time_point now) const noexcept {
    return options_.pool.max_age != forever && later(i.made_, options_.pool.max_age) <= now;
}

inline bool stock::is_fit(item const& i, time_point now) const noexcept {
    if (timed_ && is_too_old(i, now))
        return false;
    return !options_.checks || i.proven_ ||
           (timed_ && now < later(i.since_, options_.pool.check_after));
}

inline stock::item* stock::next(time_point now) const noexcept {
    bool const newest_first = options_.pool.order == reuse::most_recent;
    item* i = newest_first ? shelf_->newest : shelf_->oldest;
    while (i && !is_fit(*i, now)) [[unlikely]]
        i = newest_first ? i->older_ : i->newer_;
    return i;
}

inline void stock::push(item& i) noexcept {
    i.newer_ = nullptr;
    i.older_ = shelf_->newest;
    (i.older_ ? i.older_->newer_ : shelf_->oldest) = &i;
    shelf_->newest = &i;
    ++shelf_->count.idle;
}

inline stock::item& stock::pop(item& i) noexcept {
    (i.newer_ ? i.newer_->older_ : shelf_->newest) = i.older_;
    (i.older_ ? i.older_->newer_ : shelf_->oldest) = i.newer_;
    --shelf_->count.idle;
    return i;
}

inline void stock::forget_check(item& i) noexcept {
    shelf_->proven -= i.proven_;
    i.proven_ = false;
}

inline ticket stock::take(amount, time_point now) noexcept {
    item& i = *next(now);
    forget_check(i);
    pop(i);
    ++shelf_->count.in_use;
    if (options_.pool.max_hold != forever) [[unlikely]]
        i.watch_ = watch_.take(1, now);
    return i.as_ticket();
}

}  // namespace policy
}  // namespace weir
