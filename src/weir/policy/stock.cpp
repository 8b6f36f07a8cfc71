#include <weir/policy/stock.hpp>

#include "../check_option.hpp"

#include <algorithm>
#include <utility>

namespace weir {
namespace {

constexpr amount most_watched = 1 << 24;

}  // namespace

void validate(pool_options const& o) {
    auto const check =
        [](std::string_view option, std::int64_t value, std::int64_t least, std::int64_t most) {
            detail::check_option("pool", option, value, least, most);
        };
    auto const check_time = [](std::string_view option, duration value) {
        detail::check_duration("pool", option, value, duration(1));
    };
    bool const watched = o.max_hold != forever;
    check(watched ? "max, with max_hold," : "max", o.max, 1, watched ? most_watched : max_amount);
    check("min", o.min, 0, o.max);
    detail::check_option("pool", "order", o.order, reuse::least_recent);
    check_time("max_age", o.max_age);
    check_time("max_idle", o.max_idle);
    detail::check_duration("pool", "check_after", o.check_after, duration::zero());
    check_time("check_timeout", o.check_timeout);
    check_time("create_timeout", o.create_timeout);
    policy::validate("pool", o.retry);
    check_time("max_hold", o.max_hold);
}

namespace policy {

stock::shelf::shelf(options_type const& o) noexcept
    : options(o.pool),
      clock(o.pool.max_age != forever || o.pool.max_idle != forever ||
                    (o.checks && o.pool.check_after > duration::zero())
                ? o.clock
                : nullptr),
      checks_each_time(o.checks && o.pool.check_after == duration::zero()),
      grows_stale(o.checks || o.pool.max_age != forever),
      needs_care(clock || checks_each_time) {}

stock::shelf::~shelf() {
    while (oldest)
        std::unique_ptr<item>(std::exchange(oldest, oldest->newer_));
}

time_point stock::shelf::end_of(item const& i) const noexcept {
    auto const of_age = options.max_age == forever ? never : later(i.made_, options.max_age);
    auto const of_rest = options.max_idle == forever ? never : later(i.since_, options.max_idle);
    return std::min(of_age, of_rest);
}

void stock::shelf::trim_no_later_than(time_point t) noexcept {
    auto const wanted = t.time_since_epoch().count();
    auto seen = trim_at.load(std::memory_order_relaxed);
    while (wanted < seen &&
           !trim_at.compare_exchange_weak(seen, wanted, std::memory_order_relaxed)) {}
}

void stock::item::go(fate why) noexcept {
    fate_ = why;
    empty();
}

std::shared_ptr<stock_keeper> stock::item::come_home() noexcept {
    auto& home = *shelf_;
    bool look = home.checks_each_time || home.shortage.load(std::memory_order_relaxed);
    if (home.closed.load(std::memory_order_acquire)) {
        go(fate::retired);
    } else if (home.clock) {
        since_ = home.clock();
        auto const& max_age = home.options.max_age;
        if (max_age != forever && later(made_, max_age) <= since_) {
            go(fate::retired);
            look = true;
        } else {
            home.trim_no_later_than(home.end_of(*this));
            look = look || since_.time_since_epoch().count() >=
                               home.trim_at.load(std::memory_order_relaxed);
        }
    }
    return look ? home.keeper.lock() : nullptr;
}

std::shared_ptr<stock_keeper> stock::item::discard() noexcept {
    go(fate::discarded);
    return shelf_->keeper.lock();
}

stock::stock(options_type const& options)
    : options_((validate(options.pool), options)),
      timed_(options.pool.max_age != forever || options.pool.max_hold != forever ||
             (options.checks && options.pool.check_after > duration::zero())),
      shelf_(std::make_unique<shelf>(options)),
      watch_(options.pool.max_hold == forever
                 ? hold_watch()
                 : hold_watch(static_cast<std::size_t>(options.pool.max))) {}

stock::stock(stock&&) noexcept = default;
stock& stock::operator=(stock&&) noexcept = default;
stock::~stock() = default;

void stock::take_over(stock& before, time_point) noexcept {
    std::swap(*this, before);
}

amount stock::remaining(time_point now) const noexcept {
    amount n = 0;
    for (auto const* i = shelf_->oldest; i; i = i->newer_)
        n += is_fit(*i, now);
    return n;
}

bool stock::leave(amount, ticket t) noexcept {
    item& i = item::of(t);
    auto& count = shelf_->count;
    --count.in_use;
    if (i.watch_ != 0)
        watch_.leave(1, std::exchange(i.watch_, 0));
    if (i.fate_ == item::fate::stays) {
        push(i);
        return true;
    }
    ++(i.fate_ == item::fate::discarded ? count.discarded : count.retired);
    shelf_->objects.fetch_sub(1, std::memory_order_relaxed);
    delete &i;  // empty, so this runs no user code
    return false;
}

time_point stock::next_overdue() const noexcept {
    auto const& max_hold = options_.pool.max_hold;
    return max_hold == forever ? never : watch_.next_overdue(max_hold);
}

std::optional<overdue> stock::pop_overdue(time_point now) noexcept {
    return next_overdue() <= now ? std::optional(watch_.pop_overdue(now)) : std::nullopt;
}

stock::shelf const& stock::kept_by(std::weak_ptr<stock_keeper> keeper) noexcept {
    shelf_->keeper = std::move(keeper);
    return *shelf_;
}

stock::counts const& stock::count() const noexcept {
    return shelf_->count;
}

stock::item& stock::take_out(item& i) noexcept {
    forget_check(i);
    return pop(i);
}

stock::item* stock::take_old(time_point now) noexcept {
    auto& count = shelf_->count;
    bool const spare = count.objects() - count.leaving > options_.pool.min;
    for (auto* i = shelf_->oldest; i; i = i->newer_) {
        bool const idle_for_long =
            options_.pool.max_idle != forever && later(i->since_, options_.pool.max_idle) <= now;
        if (is_too_old(*i, now) || (spare && idle_for_long)) {
            ++count.leaving;
            return &take_out(*i);
        }
        if (options_.pool.max_age == forever)
            break;  // the other objects became idle later
    }
    return nullptr;
}

stock::item* stock::take_any() noexcept {
    if (!shelf_->oldest)
        return nullptr;
    ++shelf_->count.leaving;
    return &take_out(*shelf_->oldest);
}

stock::item* stock::take_unchecked(time_point now) noexcept {
    if (!options_.checks)
        return nullptr;
    bool const newest_first = options_.pool.order == reuse::most_recent;
    auto* i = newest_first ? shelf_->newest : shelf_->oldest;
    while (i && is_fit(*i, now))
        i = newest_first ? i->older_ : i->newer_;
    if (!i)
        return nullptr;
    ++shelf_->count.being_checked;
    return &take_out(*i);
}

bool stock::reserve() noexcept {
    bool const allowed = shelf_->count.objects() < options_.pool.max;
    shelf_->count.being_created += allowed;
    shelf_->objects.fetch_add(allowed, std::memory_order_relaxed);
    return allowed;
}

void stock::plan_trim() noexcept {
    auto first = never;
    bool const above = shelf_->count.objects() > options_.pool.min;
    for (auto const* i = shelf_->oldest; i; i = i->newer_) {
        auto const age = options_.pool.max_age;
        first = std::min(first, above            ? shelf_->end_of(*i)
                                : age == forever ? never
                                                 : later(i->made_, age));
        if (age == forever)
            break;
    }
    shelf_->trim_at.store(first.time_since_epoch().count(), std::memory_order_relaxed);
}

void stock::note_shortage(bool shut_down) noexcept {
    bool const is_short = shelf_->count.objects() < options_.pool.min && !shut_down;
    if (is_short == shelf_->shortage.load(std::memory_order_relaxed))
        return;
    shelf_->shortage.store(is_short, std::memory_order_relaxed);
    shelf_->decide_care();
}

void stock::add(item& i, time_point now) noexcept {
    i.since_ = now;
    i.proven_ = true;
    ++shelf_->proven;
    push(i);
    shelf_->trim_no_later_than(std::min(shelf_->end_of(i), shelf_->end_of(*shelf_->oldest)));
}

void stock::add_made(item& i, time_point now) noexcept {
    i.shelf_ = shelf_.get();
    i.made_ = now;
    --shelf_->count.being_created;
    ++shelf_->count.created;
    add(i, now);
}

void stock::add_checked(item& i, time_point now) noexcept {
    --shelf_->count.being_checked;
    add(i, now);
}

void stock::forget_checks() noexcept {
    for (auto* i = shelf_->newest; i && shelf_->proven != 0; i = i->older_)
        forget_check(*i);
}

void stock::fail_check() noexcept {
    --shelf_->count.being_checked;
    ++shelf_->count.being_created;
    ++shelf_->count.unhealthy;
}

void stock::drop_unchecked() noexcept {
    --shelf_->count.being_checked;
    ++shelf_->count.retired;
    shelf_->objects.fetch_sub(1, std::memory_order_relaxed);
}

void stock::has_failed() noexcept {
    ++shelf_->count.failed;
}

void stock::give_up() noexcept {
    --shelf_->count.being_created;
    shelf_->objects.fetch_sub(1, std::memory_order_relaxed);
}

void stock::gone() noexcept {
    --shelf_->count.leaving;
    ++shelf_->count.retired;
    shelf_->objects.fetch_sub(1, std::memory_order_relaxed);
}

void stock::close() noexcept {
    shelf_->closed.store(true, std::memory_order_release);
    shelf_->decide_care();
}

bool stock::is_closed() const noexcept {
    return shelf_->closed.load(std::memory_order_relaxed);
}

}  // namespace policy
}  // namespace weir
