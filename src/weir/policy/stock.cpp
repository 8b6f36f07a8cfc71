#include <weir/policy/stock.hpp>

#include "../check_option.hpp"

#include <algorithm>
#include <utility>

namespace weir::inline v0_2 {
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

stock::inventory::inventory(options_type const& o) noexcept {
    set(o);
}

stock::inventory::~inventory() {
    while (oldest)
        std::unique_ptr<item>(std::exchange(oldest, oldest->newer_));
}

void stock::inventory::set(options_type const& o) noexcept {
    grows_stale.store(o.checks || o.pool.max_age != forever, std::memory_order_relaxed);
    max.store(o.pool.max, std::memory_order_relaxed);
}

void stock::item_return::destroy(item::fate why) noexcept {
    item_.fate_ = why;
    item_.empty();
}

void stock::item_return::end() noexcept {
    bool const refused = refused_ != nullptr;
    refused_.reset();
    if (supplier_)
        refused ? supplier_->object_gone() : supplier_->summon();
}

stock::stock(options_type const& options)
    : options_((validate(options.pool), options)),
      timed_(options.pool.max_age != forever || options.pool.max_hold != forever ||
             (options.checks && options.pool.check_after > duration::zero())),
      times_leave_(options.pool.max_age != forever || options.pool.max_idle != forever ||
                   options.checks),
      inventory_(std::make_unique<inventory>(options)),
      watch_(options.pool.max_hold == forever
                 ? hold_watch()
                 : hold_watch(static_cast<std::size_t>(options.pool.max))) {}

stock::stock(stock&&) noexcept = default;
stock& stock::operator=(stock&&) noexcept = default;
stock::~stock() = default;

void stock::take_over(stock& before, time_point now) noexcept {
    std::swap(inventory_, before.inventory_);
    inventory_->set(options_);
    if (times_leave_ && !before.times_leave_) {
        for (auto* i = inventory_->oldest; i; i = i->newer_)
            i->since_ = now;
    }
    watch_.take_over(before.watch_);
}

amount stock::remaining(time_point now) const noexcept {
    amount n = 0;
    for (auto const* i = inventory_->oldest; i; i = i->newer_)
        n += is_fit(*i, now);
    return n;
}

bool stock::leave(amount, ticket t, time_point now) noexcept {
    item& i = item::of(t);
    auto& count = inventory_->count;
    auto* const way_back = i.way_back_;  // null if the permit never became a lease
    --count.in_use;
    if (i.watch_ != 0)
        watch_.leave(1, std::exchange(i.watch_, 0));
    if (i.fate_ != item::fate::stays) {
        way_back->supplier_ = inventory_->supplier.lock();
        ++(i.fate_ == item::fate::discarded ? count.discarded : count.retired);
        inventory_->objects.fetch_sub(1, std::memory_order_relaxed);
        delete &i;  // empty, so this runs no user code
        return false;
    }
    if (way_back && (is_full() || is_too_old(i, now))) {
        way_back->supplier_ = inventory_->supplier.lock();
        way_back->refused_.reset(&i);
        ++count.leaving;
        return false;
    }
    i.since_ = now;
    push(i);
    if (times_leave_)
        trim_no_later_than(end_of(i));
    if (way_back && (!is_fit(i, now) || inventory_->shortage || inventory_->trim_at <= now))
        way_back->supplier_ = inventory_->supplier.lock();
    return true;
}

bool stock::is_full() const noexcept {
    auto const max = inventory_->closed.load(std::memory_order_relaxed) ? 0 : options_.pool.max;
    return inventory_->count.existing() >= max;
}

time_point stock::end_of(item const& i) const noexcept {
    auto const& max_age = options_.pool.max_age;
    auto const& max_idle = options_.pool.max_idle;
    auto const of_age = max_age == forever ? never : later(i.made_, max_age);
    auto const of_rest = max_idle == forever ? never : later(i.since_, max_idle);
    return std::min(of_age, of_rest);
}

void stock::trim_no_later_than(time_point t) noexcept {
    inventory_->trim_at = std::min(inventory_->trim_at, t);
}

time_point stock::next_overdue() const noexcept {
    auto const& max_hold = options_.pool.max_hold;
    return max_hold == forever ? never : watch_.next_overdue(max_hold);
}

std::optional<overdue> stock::pop_overdue(time_point now) noexcept {
    return next_overdue() <= now ? std::optional(watch_.pop_overdue(now)) : std::nullopt;
}

stock::inventory const& stock::supplied_by(std::weak_ptr<stock_supplier> supplier) noexcept {
    inventory_->supplier = std::move(supplier);
    return *inventory_;
}

stock::counts const& stock::count() const noexcept {
    return inventory_->count;
}

stock::item& stock::take_out(item& i) noexcept {
    forget_check(i);
    return pop(i);
}

stock::item* stock::take_old(time_point now) noexcept {
    auto& count = inventory_->count;
    if (count.existing() > options_.pool.max)
        return take_any();
    bool const spare = count.objects() - count.leaving > options_.pool.min;
    for (auto* i = inventory_->oldest; i; i = i->newer_) {
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
    if (!inventory_->oldest)
        return nullptr;
    ++inventory_->count.leaving;
    return &take_out(*inventory_->oldest);
}

stock::item* stock::take_unchecked(time_point now) noexcept {
    if (!options_.checks)
        return nullptr;
    bool const newest_first = options_.pool.order == reuse::most_recent;
    auto* i = newest_first ? inventory_->newest : inventory_->oldest;
    while (i && is_fit(*i, now))
        i = newest_first ? i->older_ : i->newer_;
    if (!i)
        return nullptr;
    ++inventory_->count.being_checked;
    return &take_out(*i);
}

bool stock::reserve() noexcept {
    bool const allowed = inventory_->count.objects() < options_.pool.max;
    inventory_->count.being_created += allowed;
    inventory_->objects.fetch_add(allowed, std::memory_order_relaxed);
    return allowed;
}

void stock::plan_trim() noexcept {
    auto first = never;
    bool const above = inventory_->count.objects() > options_.pool.min;
    for (auto const* i = inventory_->oldest; i; i = i->newer_) {
        auto const age = options_.pool.max_age;
        first = std::min(first, above ? end_of(*i) : age == forever ? never : later(i->made_, age));
        if (age == forever)
            break;
    }
    inventory_->trim_at = first;
}

void stock::note_shortage(bool shut_down) noexcept {
    inventory_->shortage = inventory_->count.objects() < options_.pool.min && !shut_down;
}

bool stock::add(item& i, time_point now) noexcept {
    if (is_full()) {
        ++inventory_->count.leaving;
        return false;
    }
    i.since_ = now;
    i.proven_ = true;
    ++inventory_->proven;
    push(i);
    trim_no_later_than(std::min(end_of(i), end_of(*inventory_->oldest)));
    return true;
}

bool stock::add_made(item& i, time_point now) noexcept {
    i.inventory_ = inventory_.get();
    i.made_ = now;
    --inventory_->count.being_created;
    ++inventory_->count.created;
    return add(i, now);
}

bool stock::add_checked(item& i, time_point now) noexcept {
    --inventory_->count.being_checked;
    return add(i, now);
}

void stock::forget_checks() noexcept {
    for (auto* i = inventory_->newest; i && inventory_->proven != 0; i = i->older_)
        forget_check(*i);
}

void stock::fail_check() noexcept {
    --inventory_->count.being_checked;
    ++inventory_->count.being_created;
    ++inventory_->count.unhealthy;
}

void stock::drop_unchecked() noexcept {
    --inventory_->count.being_checked;
    ++inventory_->count.retired;
    inventory_->objects.fetch_sub(1, std::memory_order_relaxed);
}

void stock::has_failed() noexcept {
    ++inventory_->count.failed;
}

void stock::give_up() noexcept {
    --inventory_->count.being_created;
    inventory_->objects.fetch_sub(1, std::memory_order_relaxed);
}

void stock::gone() noexcept {
    --inventory_->count.leaving;
    ++inventory_->count.retired;
    inventory_->objects.fetch_sub(1, std::memory_order_relaxed);
}

void stock::close() noexcept {
    inventory_->closed.store(true, std::memory_order_release);
}

}  // namespace policy
}  // namespace weir::inline v0_2
