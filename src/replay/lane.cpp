#include "lane.hpp"

#include <weir/outcome.hpp>

#include "config/configuration.hpp"
#include "limiting/request.hpp"
#include "limiting/tree.hpp"

#include <algorithm>
#include <ranges>
#include <tuple>
#include <type_traits>
#include <variant>

namespace replay {

using namespace std::chrono_literals;

template <class Permit>
void on_turn::operator()(weir::error_code ec, Permit permit) const {
    if constexpr (std::is_same_v<Permit, weir::permit>)
        if (transfer_)
            return lane_->bytes_->decided(*transfer_, permit);
    lane_->decided(*visit_, ec, permit);
}

namespace {

// Lets a rule of the calendar read the time of the log.
void use_time_of_log(weir::limiter_config& rule) {
    if (auto* const calendar = std::get_if<weir::calendar_window_options>(&rule.options))
        calendar->clock = clock::wall;
    if (auto* const all = std::get_if<weir::all_options>(&rule.options))
        std::ranges::for_each(all->parts, use_time_of_log);
}

}  // namespace

lane::lane(plan const& p, std::vector<key_numbers>& keys, nanoseconds begin, lane_options options)
    : keys_(keys), options_(std::move(options)), now_(begin) {
    set_time(begin);
    so_far_.name = p.name;
    rejected_.resize(keys.size());
    for (auto const& l : p.limits())
        add_limit(l);
    for (auto const& r : p.routes()) {
        std::vector<std::shared_ptr<limit>> its;
        for (auto const i : r.limits)
            its.push_back(limits_[i]);
        routes_.push_back({gate(its, r.what.costs), r.what.respond});
    }
    if (!p.bandwidths().empty())
        bytes_ = std::make_unique<lane_bytes>(
            *this, stage_.get_executor(), p, keys_,
            [this](config::limit const& what, std::optional<key> const& per) {
                return make_limiter(what, per, {});
            },
            options_.details);
}

lane::~lane() {
    // Permits must end before the limiters. Waiting requests get no completion.
    set_time(now_);
    for (auto& v : visits_)
        v.entry.permits.clear();
    if (bytes_)
        bytes_->clear();
    options_.watcher = nullptr;
    routes_.clear();
    limits_.clear();
}

void lane::add_limit(planned_limit const& l) {
    so_far_.rules.push_back({.text = l.text, .dry_run = l.what.dry_run, .rejected = {}});
    so_far_.holds = so_far_.holds || config::has_seats(l.what.rule);
    counts_statuses_ = counts_statuses_ || !l.what.count.empty();
    place_of_arrivals place;
    if (l.fair)
        place.fair = slot_of(*l.fair);
    if (!l.what.weights.empty()) {
        place.weights = limiting::weights_of(l.what);
        place.clients = &keys_[*place.fair];
    }
    if (l.priority)
        place.priority = slot_of(*l.priority);
    slots_.push_back(l.per ? slot_of(*l.per) : 0);
    limits_.push_back(make_limiter(l.what, l.per, place));
}

std::shared_ptr<limit> lane::make_limiter(config::limit what, std::optional<key> const& per,
                                          place_of_arrivals const& place) {
    std::optional<key_of_arrivals> values;
    if (per)
        values.emplace(slot_of(*per), keys_[slot_of(*per)]);
    if (what.tree)
        return std::make_shared<limiting::tree_limit<world>>(
            stage_.get_executor(), what, *values, place);
    use_time_of_log(what.rule);
    for (auto& [name, rule] : what.overrides)
        if (rule)
            use_time_of_log(*rule);
    return limiting::make_limit<world>(stage_.get_executor(), what, values, place);
}

std::size_t lane::slot_of(key const& k) const {
    return static_cast<std::size_t>(
        std::ranges::find(keys_, k, &key_numbers::what) - keys_.begin());
}

std::size_t lane::number_of(limit const* l) const noexcept {
    auto const is_it = [l](auto const& each) { return each.get() == l; };
    return static_cast<std::size_t>(std::ranges::find_if(limits_, is_it) - limits_.begin());
}

void lane::set_time(nanoseconds t) noexcept {
    now_ = t;
    clock::set(clock::time_point(t), options_.epoch);
}

void lane::come(arrival const& a) {
    if (is_busy_ || !ends_.empty() || !returns_.empty() || (bytes_ && bytes_->open() != 0))
        advance(a.at);
    set_time(a.at);
    auto& v = new_visit();
    v.entry.who = a;
    v.number = number_++;
    ++so_far_.open;
    std::size_t const i = options_.ways ? (*options_.ways)[a.way][options_.plan] : 0;
    if (i == routes_.size()) {
        if (options_.details)
            ++so_far_.over_time.at(now_).asked;
        return answer(v);
    }
    v.at = &routes_[i].entrance;
    v.route = i;
    v.is_answered = routes_[i].respond.has_value();
    v.status = routes_[i].respond.value_or(a.status);
    ask(v);
}

void lane::finish() {
    advance(nanoseconds::max());
}

// Runs all events up to and including `t`.
void lane::advance(nanoseconds t) {
    for (;;) {
        set_time(now_);
        if (is_busy_) {
            while (stage_.run_posted()) {}
            is_busy_ = waiting_ != 0 || stage_.next_expiry() != clock::time_point::max();
        }
        auto next = stage_.next_expiry().time_since_epoch();
        if (!ends_.empty())
            next = std::min(next, ends_.top().at);
        if (!returns_.empty())
            next = std::min(next, returns_.top().at);
        if (bytes_)
            next = std::min(next, bytes_->next());
        if (next > t || next == nanoseconds::max())
            return;
        set_time(std::max(now_, next));
        if (!ends_.empty() && ends_.top().at <= now_) {
            auto& v = *ends_.top().who;
            ends_.pop();
            end_part(v);
        } else if (stage_.next_expiry().time_since_epoch() <= now_) {
            is_busy_ = true;
            stage_.fire_due();
        } else if (bytes_ && bytes_->next() <= now_) {
            bytes_->go_on();
        } else {
            auto& v = *returns_.top().who;
            returns_.pop();
            ask(v);
        }
    }
}

void lane::ask(visit& v) {
    if (options_.details)
        ++so_far_.over_time.at(now_).asked;
    if (!v.at->enter_at_once(v.entry))
        wait(v);
    else if (v.entry.rejected.by)
        reject(v);
    else
        grant(v);
}

void lane::wait(visit& v) {
    is_busy_ = true;
    ++waiting_;  // until the decision, which may be immediate
    on_turn const handler(*this, v, stage_.get_executor());
    if (v.at->waits_for_chain(v.entry))
        v.at->wait_for_chain(v.entry, handler);
    else
        v.at->next(v.entry).async_enter(
            v.entry.who, v.entry.at[v.entry.passed], v.entry.patience, handler);
    if (waiting_ > so_far_.longest_queue)
        so_far_.longest_queue = waiting_;
    if (options_.details && waiting_ != 0) {
        auto& p = so_far_.over_time.at(now_);
        p.waiting = std::max(p.waiting, waiting_);
    }
}

template <class Permit>
void lane::decided(visit& v, weir::error_code ec, Permit& permit) {
    --waiting_;
    if (!v.at->decide(v.entry, ec, permit))
        reject(v);
    else if (v.at->is_in(v.entry))
        grant(v);
    else
        wait(v);
}

// Ends a request that a route answers itself, or for which no route matches.
void lane::answer(visit& v) {
    --so_far_.open;
    ++so_far_.answered;
    if (options_.details)
        ++so_far_.over_time.at(now_).granted;
    settle(v);
    end(v);
}

void lane::grant(visit& v) {
    auto& e = v.entry;
    for (auto i = v.at->strict(); i < e.permits.size(); ++i)
        if (!e.permits[i] && !e.at[i].is_unlimited) {
            auto& rule = so_far_.rules[number_of(v.at->all()[i].get())];
            ++rule.rejected[static_cast<std::size_t>(weir::errc::no_permit)];
        }
    if (v.is_answered)
        return answer(v);
    auto const waited = v.entry.waited;
    --so_far_.open;
    if (v.attempts != 0)
        ++so_far_.later;
    else if (waited > 0ns)
        ++so_far_.waited;
    else
        ++so_far_.at_once;
    if (waited > 0ns) {
        so_far_.waits.add(waited);
        so_far_.longest_wait = std::max(so_far_.longest_wait, waited);
    }
    if (options_.details)
        ++so_far_.over_time.at(now_).granted;
    if (options_.watcher)
        options_.watcher({v.number, now_, waited, {}, 0});
    bool const has_bytes = bytes_ && bytes_->has_limits(v.route, v.entry.who);
    if (!so_far_.holds && !counts_statuses_ && !has_bytes)
        return end(v);
    v.parts = 1;
    if (has_bytes)
        bytes_->start(v, v.route);
    ++in_use_;
    if (so_far_.holds)
        so_far_.peak_in_use = std::max(so_far_.peak_in_use, in_use_);
    ends_.push({now_ + v.entry.who.held, order_++, &v});
}

void lane::reject(visit& v) {
    auto const& rejected = v.entry.rejected;
    auto const rule = number_of(rejected.by);
    auto const why = static_cast<weir::errc>(rejected.ec.value());
    ++so_far_.rules[rule].rejected[static_cast<std::size_t>(why)];
    if (options_.details)
        ++so_far_.over_time.at(now_).rejected;
    if (options_.watcher)
        options_.watcher({v.number, now_, v.entry.waited, why, rule});
    if (why != weir::errc::too_many_keys)
        v.at->punish(v.entry, config::status_of_rejection(rejected.by->configuration()));
    if (v.attempts < options_.retries) {
        ++v.attempts;
        ++so_far_.came_back;
        auto const back_at = now_ + limiting::come_back_after(rejected.retry_after);
        v.entry.reset();
        returns_.push({back_at, order_++, &v});
        return;
    }
    --so_far_.open;
    ++so_far_.rejected;
    if (options_.details) {
        auto& by_key = rejected_[slots_[rule]];
        auto const key = v.entry.who.keys[slots_[rule]];
        if (key >= by_key.size())
            by_key.resize(std::max<std::size_t>(key + 1, 2 * by_key.size()));
        ++by_key[key];
    }
    end(v);
}

// The service of a request and its transfers are its parts.
void lane::end_part(visit& v) {
    if (--v.parts != 0)
        return;
    if (v.slowed > 0ns) {
        so_far_.slowed.add(v.slowed);
        so_far_.longest_slowed = std::max(so_far_.longest_slowed, v.slowed);
    }
    leave(v);
}

void lane::leave(visit& v) {
    --in_use_;
    if (waiting_ != 0)
        is_busy_ = true;
    v.at->report(v.entry, v.entry.who.overloaded ? weir::outcome::dropped : weir::outcome::success);
    settle(v);
    end(v);
}

// The log has no costs that only the response tells.
void lane::settle(visit& v) const noexcept {
    if (v.at)
        v.at->settle(v.entry, v.status, [](config::cost const&) { return std::nullopt; });
}

visit& lane::new_visit() {
    if (free_.empty())
        return visits_.emplace_back();
    auto& v = *free_.back();
    free_.pop_back();
    return v;
}

void lane::end(visit& v) noexcept {
    v.entry.reset();
    v.attempts = 0;
    v.slowed = 0ns;
    free_.push_back(&v);
}

outcome lane::result(std::vector<std::vector<std::uint64_t>> const& asked, std::size_t most) const {
    struct found {
        std::size_t slot;
        std::uint32_t key;
        std::uint64_t rejected;
    };
    std::vector<found> all;
    for (std::size_t slot = 0; slot != rejected_.size(); ++slot)
        for (std::uint32_t key = 0; key != rejected_[slot].size(); ++key)
            if (auto const n = rejected_[slot][key])
                all.push_back({slot, key, n});
    auto const kept = static_cast<std::ptrdiff_t>(std::min(most, all.size()));
    std::ranges::partial_sort(all, all.begin() + kept, [](found const& a, found const& b) {
        return std::tuple(b.rejected, a.slot, a.key) < std::tuple(a.rejected, b.slot, b.key);
    });

    auto r = so_far_;
    if (bytes_)
        r.bandwidths = bytes_->results(keys_, most);
    for (auto const& f : all | std::views::take(kept))
        r.top_rejected.push_back({to_string(keys_[f.slot].what()), keys_[f.slot].text_of(f.key),
                                  asked[f.slot][f.key], f.rejected});
    return r;
}

}  // namespace replay
