#pragma once

#include <weir/policy/backoff.hpp>
#include <weir/policy/hold_watch.hpp>
#include <weir/policy/policy.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

namespace weir::inline v0_2 {

/// The order in which a pool uses idle objects.
enum class reuse : std::uint8_t {
    /// The object returned last: it is warm, and surplus objects stay idle until they are trimmed.
    most_recent,
    /// The object that has been idle longest: all objects are used equally.
    least_recent,
};

/// The size of a `pool`, and the times after which it checks and destroys objects.
struct pool_options {
    /// The number of objects that the pool keeps without any request, 0 to `max`. It creates them in the background.
    amount min = 0;

    /// The most objects at a time, including objects under construction: 1 to `max_amount`; at most 16,777,216 if
    /// `max_hold` is set.
    amount max = 10;

    /// The order in which idle objects are used. Objects that need no check come first.
    reuse order = reuse::most_recent;

    /// The longest age of an object, at least 1 ns. An older object is destroyed instead of being lent.
    duration max_age = forever;

    /// The longest idle time of an object beyond `min`, at least 1 ns. An object that has been idle longer is destroyed
    /// at the next use of the pool, or by `trim` and `configure`.
    duration max_idle = forever;

    /// The idle time after which an object is checked before it is lent, if the pool has a check; 0 checks every time.
    /// A new object is not checked.
    duration check_after = std::chrono::seconds(30);

    /// The time limit of a check, at least 1 ns. Then the check is cancelled, and the object counts as broken.
    duration check_timeout = std::chrono::seconds(5);

    /// The time limit for creating an object, at least 1 ns. Then the attempt is cancelled, and counts as failed.
    duration create_timeout = std::chrono::seconds(30);

    /// The pause after a failure before the pool creates an object again.
    backoff_options retry = {};

    /// The longest time to hold a lease, at least 1 ns. `async_wait_overdue` reports a longer lease once; the holder
    /// keeps it.
    duration max_hold = forever;
};

/// Throws `std::invalid_argument` if an option is invalid; its text names the option, the value and the bound.
void validate(pool_options const& options);

namespace policy {

/// Creates, checks and destroys the objects of a stock.
class stock_supplier {
public:
    /// Checks whether there is work, after a change that may need it. Called from any thread, under no lock.
    virtual void summon() noexcept = 0;
    /// Records that an object that the stock did not take back was destroyed. Called like `summon`.
    virtual void object_gone() noexcept = 0;

protected:
    ~stock_supplier() = default;
};

/// The policy of a pool: `seats` with objects.
///
/// A permit is the right to one object, and the ticket is that object. A request fits while an idle object can be lent
/// as it is.
///
/// The stock records events under the limiter's lock, but never calls or destroys user code there: the owner of an item
/// empties it. The owner is its permit, or the caller that took it out.
///
/// Guarantee: the stock allows no new object while the number of objects that are idle, lent, being checked, created or
/// destroyed is `max` or more. After a change to a lower `max` it keeps no object that is returned, created or checked
/// while the idle, lent and checked ones are more than `max`.
///
/// Memory: one item per object.
class stock {
public:
    struct options_type {
        pool_options pool = {};
        bool checks = false;  // whether objects can be checked
    };

    struct inventory;
    class item_return;

    /// A slot for one object.
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

        /// Returns the `overdue::id` of the permit that holds this item.
        [[nodiscard]] ticket watched_as() const noexcept { return watch_; }

    private:
        friend stock;
        friend inventory;
        friend item_return;
        enum class fate : std::uint8_t { stays, discarded, retired };

        inventory* inventory_ = nullptr;
        union {
            item* newer_ = nullptr;  // of an idle one
            item_return* way_back_;  // of one in use: null until its owner returns it
        };
        item* older_ = nullptr;
        time_point since_{};  // when it became idle
        time_point made_{};
        ticket watch_ = 0;
        fate fate_ = fate::stays;
        bool proven_ = false;  // created or checked just now
    };

    /// The return of an item, which its owner begins before it releases the permit, and ends afterwards, under no lock.
    class item_return {
    public:
        explicit item_return(item& i) noexcept;
        item_return(item_return const&) = delete;
        item_return& operator=(item_return const&) = delete;
        /// Destroys the object if the stock did not take it back, and calls the supplier if it has work.
        ~item_return() {
            if (refused_ || supplier_) [[unlikely]]
                end();
        }

        /// Destroys the object because it is broken.
        void discard() noexcept { destroy(item::fate::discarded); }

    private:
        friend stock;

        void destroy(item::fate why) noexcept;
        void end() noexcept;

        item& item_;  // until the permit is released
        std::unique_ptr<item> refused_;
        std::shared_ptr<stock_supplier> supplier_;
    };

    /// The numbers of objects by state, and how objects ended.
    struct counts {
        amount idle = 0;
        amount in_use = 0;
        amount being_checked = 0;
        amount being_created = 0;
        amount leaving = 0;  // being destroyed

        std::uint64_t created = 0;
        std::uint64_t failed = 0;     // attempts to create an object
        std::uint64_t discarded = 0;  // by their holders
        std::uint64_t unhealthy = 0;  // by the check
        std::uint64_t retired = 0;    // too old, idle for too long, above `max`, or closed

        [[nodiscard]] amount existing() const noexcept { return idle + in_use + being_checked; }
        [[nodiscard]] amount objects() const noexcept {
            return existing() + being_created + leaving;
        }
    };

    explicit stock(options_type const& options);
    stock(stock&&) noexcept;
    stock& operator=(stock&&) noexcept;
    ~stock();

    // The members of a policy.

    static void begin(time_point) noexcept {}
    /// Takes over all objects. If no return was timed until now, the idle times of objects begin now.
    void take_over(stock& before, time_point now) noexcept;
    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    [[nodiscard]] amount capacity() const noexcept { return options_.pool.max; }
    [[nodiscard]] bool timed() const noexcept { return timed_; }
    [[nodiscard]] bool times_leave() const noexcept { return times_leave_; }
    [[nodiscard]] amount remaining(time_point now) const noexcept;
    [[nodiscard]] time_point ready_at(amount, amount ahead, time_point now) const noexcept {
        return ahead == 0 && next(now) ? now : unknown;
    }
    /// Takes an idle object; there must be one that can be lent.
    ticket take(amount, time_point now) noexcept;
    bool leave(amount, ticket t, time_point now) noexcept;
    bool refund(amount n, ticket t, time_point now) noexcept { return leave(n, t, now); }
    /// Returns `a`: a lease is never split, so there is nothing to merge.
    static ticket merge(ticket a, ticket, amount) noexcept { return a; }
    [[nodiscard]] time_point next_overdue() const noexcept;
    [[nodiscard]] std::optional<overdue> pop_overdue(time_point now) noexcept;

    // For the supplier.

    /// Sets the supplier. The address of the returned inventory is valid while the stock exists.
    inventory const& supplied_by(std::weak_ptr<stock_supplier> supplier) noexcept;
    [[nodiscard]] counts const& count() const noexcept;

    /// Takes out an idle object to destroy, because it is above `max`, too old, or beyond `min` and idle for too long;
    /// null if there is none.
    [[nodiscard]] item* take_old(time_point now) noexcept;
    /// Takes out any idle object to destroy.
    [[nodiscard]] item* take_any() noexcept;
    /// Takes out an idle object that needs a check.
    [[nodiscard]] item* take_unchecked(time_point now) noexcept;
    /// Returns whether one more object may be created; if so, counts it.
    [[nodiscard]] bool reserve() noexcept;
    /// Computes when the next idle object will be too old, or idle for too long.
    void plan_trim() noexcept;
    /// Notes whether there are fewer than `min` objects; if so, each return of an object summons the supplier.
    void note_shortage(bool shut_down) noexcept;

    // For objects that were taken out.

    /// Adds a new object, and returns true: the item now belongs to the stock. If it is above `max`, the stock does not
    /// take it, and the caller destroys it, like an object that was taken out.
    [[nodiscard]] bool add_made(item& i, time_point now) noexcept;
    /// Adds an object that passed its check, as `add_made` does.
    [[nodiscard]] bool add_checked(item& i, time_point now) noexcept;
    /// Treats objects that were created or checked for a request, but are still idle, like any other.
    void forget_checks() noexcept;
    /// Records a failed check: a new object is being created in its place.
    void fail_check() noexcept;
    /// Records that a check did not end, and that the object was destroyed.
    void drop_unchecked() noexcept;
    /// Records a failed attempt to create an object.
    void has_failed() noexcept;
    /// Records that the creation of an object was given up.
    void give_up() noexcept;
    /// Records that an object was destroyed.
    void gone() noexcept;

    /// From now on, the stock takes no object: its maximum is 0.
    void close() noexcept;

private:
    [[nodiscard]] bool is_fit(item const& i, time_point now) const noexcept;
    [[nodiscard]] bool is_too_old(item const& i, time_point now) const noexcept;
    [[nodiscard]] item* next(time_point now) const noexcept;
    [[nodiscard]] bool is_full() const noexcept;
    [[nodiscard]] bool add(item& i, time_point now) noexcept;
    [[nodiscard]] time_point end_of(item const& i) const noexcept;
    void trim_no_later_than(time_point t) noexcept;
    void forget_check(item& i) noexcept;
    void push(item& i) noexcept;
    item& pop(item& i) noexcept;
    item& take_out(item& i) noexcept;

    options_type options_;
    bool timed_;
    bool times_leave_;
    std::unique_ptr<inventory> inventory_;
    hold_watch watch_;
};

/// The state that items in use share. The limiter's lock guards all but the atomic members.
struct stock::inventory {
    explicit inventory(options_type const& options) noexcept;
    inventory(inventory const&) = delete;
    inventory& operator=(inventory const&) = delete;
    ~inventory();

    std::atomic<bool> closed = false;
    std::atomic<bool> grows_stale;  // idle objects may have to be checked or destroyed
    std::atomic<amount> max;
    std::atomic<amount> objects = 0;  // as counted below
    bool shortage = false;            // there are fewer than `min`
    time_point trim_at = never;       // before it, no idle object has to be trimmed
    std::weak_ptr<stock_supplier> supplier;

    // The idle objects, in the order of their return.
    item* newest = nullptr;
    item* oldest = nullptr;
    counts count;
    amount proven = 0;  // the number of idle objects with `proven_`

    void set(options_type const& options) noexcept;

    /// Returns whether a waiting request must summon the supplier, to create, check or trim objects.
    [[nodiscard]] bool needs_supplier() const noexcept {
        return grows_stale.load(std::memory_order_relaxed) ||
               objects.load(std::memory_order_relaxed) < max.load(std::memory_order_relaxed);
    }
};

inline stock::item_return::item_return(item& i) noexcept : item_(i) {
    i.way_back_ = this;
    if (i.inventory_->closed.load(std::memory_order_acquire)) [[unlikely]]
        destroy(item::fate::retired);
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
    item* i = newest_first ? inventory_->newest : inventory_->oldest;
    while (i && !is_fit(*i, now)) [[unlikely]]
        i = newest_first ? i->older_ : i->newer_;
    return i;
}

inline void stock::push(item& i) noexcept {
    i.newer_ = nullptr;
    i.older_ = inventory_->newest;
    (i.older_ ? i.older_->newer_ : inventory_->oldest) = &i;
    inventory_->newest = &i;
    ++inventory_->count.idle;
}

inline stock::item& stock::pop(item& i) noexcept {
    (i.newer_ ? i.newer_->older_ : inventory_->newest) = i.older_;
    (i.older_ ? i.older_->newer_ : inventory_->oldest) = i.newer_;
    --inventory_->count.idle;
    return i;
}

inline void stock::forget_check(item& i) noexcept {
    inventory_->proven -= i.proven_;
    i.proven_ = false;
}

inline ticket stock::take(amount, time_point now) noexcept {
    item& i = *next(now);
    forget_check(i);
    pop(i).way_back_ = nullptr;
    ++inventory_->count.in_use;
    if (options_.pool.max_hold != forever) [[unlikely]]
        i.watch_ = watch_.take(1, now);
    return i.as_ticket();
}

}  // namespace policy
}  // namespace weir::inline v0_2
