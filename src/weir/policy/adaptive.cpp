#include <weir/policy/adaptive.hpp>

#include <chrono>

namespace weir::inline v0_2::policy {
namespace {

using namespace std::chrono_literals;

// How long no permit is released until a probe ends, and until a request is granted on trial.
duration patience_in_probe(duration latency) noexcept {
    return std::max<duration>(times(latency, 20), 100ms);
}
duration patience(duration latency, int trials) noexcept {
    return times(std::max<duration>(times(latency, 20), 15s), std::int64_t{1} << trials);
}

}  // namespace

adaptive::adaptive(options_type const& options)
    : algorithm_(std::visit(
          []<class Options>(Options const& o) -> algorithm {
              if constexpr (std::is_same_v<Options, knee_options>)
                  return knee(o);
              else if constexpr (std::is_same_v<Options, gradient2_options>)
                  return windowed<gradient2>(o);
              else if constexpr (std::is_same_v<Options, vegas_options>)
                  return windowed<vegas>(o);
              else
                  return windowed<aimd>(o);
          },
          options)),
      max_(std::visit([](auto const& o) { return o.max; }, options)),
      seats_(std::visit([](auto const& a) { return a.seats(); }, algorithm_)) {}

void adaptive::take_over(adaptive& before, time_point now) noexcept {
    marks_ = before.marks_;
    in_use_ = before.in_use_;
    last_change_ = before.last_change_;
    work_ = before.work_;
    trials_ = before.trials_;
    take_over_algorithm(before, now);
}

void adaptive::take_over_algorithm(adaptive const& before, time_point now) noexcept {
    std::visit(
        [&]<class Algorithm>(Algorithm& a) {
            if (auto const* const same = std::get_if<Algorithm>(&before.algorithm_))
                a.take_over(*same, now);
            else
                a.start_with(before.seats_, now);
        },
        algorithm_);
    set_number();
}

// ---- The saved state.

learned_seats adaptive::learned() const noexcept {
    return std::visit([](auto const& a) { return a.learned(); }, algorithm_);
}

void adaptive::save(number_writer& to, time_point) const {
    auto const now = learned();
    if (now == adaptive(options()).learned())
        return;
    to.add(static_cast<number_writer::wide>(now.seats));
    to.add(number_writer::wide{now.has_started});
    to.add(static_cast<number_writer::wide>(now.latency.count()));
}

// The numbers are accepted if an algorithm with these options can have learned them: then it did not change them.
bool adaptive::load(number_reader& from, time_point then) noexcept {
    if (from.is_done())
        return true;
    learned_seats before;
    before.seats = from.next_as<amount>(max_amount);
    before.has_started = from.next(1) == 1;
    before.latency = duration(from.next_as<duration::rep>(longest_learned_latency.count()));
    if (from.failed())
        return false;
    std::visit([&](auto& a) { a.start_from(before, then); }, algorithm_);
    set_number();
    return learned() == before;
}

void adaptive::resume(adaptive& before, time_point now, bool) noexcept {
    if (before == adaptive(before.options()))
        return;
    take_over_algorithm(before, now);
    work_ = 0;  // as the new window has it
}

adaptive::options_type adaptive::options() const {
    return std::visit([](auto const& a) { return options_type(a.options()); }, algorithm_);
}

bool adaptive::leave(amount n, ticket t, time_point now) noexcept {
    pass(now);
    if (t == 0) [[unlikely]] {
        marks_.leave_unknown(n, in_use_);
        trials_.count = 0;
        set_number();
    } else {
        auto const granted = granted_at(t, now);
        auto const how = t & code_mask;
        if (trials_.count != 0) [[unlikely]]
            end_trials(granted, how == code_of(outcome::success));
        auto const long_calls = marks_.long_calls();
        auto const in_progress = in_use_ - long_calls;
        bool const is_long = marks_.leave(granted, n, in_use_, now);
        bool is_other_number = marks_.long_calls() != long_calls;
        if (!is_long && how != code_of(outcome::ignored)) {
            ended_call const call{
                .granted = std::min(granted, now),
                .now = now,
                .count = n,
                .in_progress = in_progress,
                .in_use = in_use_,
                .dropped = how == code_of(outcome::dropped),
                .work = work_};
            is_other_number |= std::visit([&](auto& a) { return a.add(call); }, algorithm_);
        }
        if (is_other_number) [[unlikely]]
            set_number();
    }
    in_use_ -= n;
    return true;
}

bool adaptive::refund(amount n, ticket t, time_point now) noexcept {
    pass(now);
    if (t == 0)
        marks_.leave_unknown(n, in_use_);
    else
        marks_.refund(granted_at(t, now), n, in_use_);
    trials_.count = 0;
    in_use_ -= n;
    set_number();
    return true;
}

ticket adaptive::merge(ticket a, ticket b, amount n) noexcept {
    if (auto const mark = marks_.last_mark(); mark != time_point::min()) {
        if (b != 0)
            marks_.remove(granted_at(b, mark), n);
        if (a != 0)
            marks_.add(granted_at(a, mark), n);
    }
    trials_.count = 0;
    bool const dropped = b != 0 && (b & code_mask) == code_of(outcome::dropped);
    return dropped ? report(a, outcome::dropped) : a;
}

// The samples before a pause of the load and the samples after it do not measure one load. Calls in progress during the
// pause are mostly long ones, but no release shows that.
void adaptive::note_pause(std::uint64_t time, time_point now) noexcept {
    auto* const k = std::get_if<knee>(&algorithm_);
    if (!k || k->latency() == duration::zero())
        return;
    auto const longest = times(k->latency(), std::max<amount>(k->seats(), 20));
    if (time > static_cast<std::uint64_t>(longest.count()))
        k->forget_samples(now, work_);
}

// With `knee`, each long call adds a seat.
amount adaptive::with_long_calls(amount seats) const noexcept {
    return std::min(max_, seats + std::min(marks_.long_calls(), max_));
}

void adaptive::set_number() noexcept {
    if (auto const* const k = std::get_if<knee>(&algorithm_))
        seats_ = with_long_calls(k->seats());
    else
        seats_ = std::visit([](auto const& a) { return a.seats(); }, algorithm_);
}

// ---- Long calls in all seats.
//
// No sample comes from them, so the number cannot change, and without a release they are not known to be long. A probe
// ends then. With the number itself, one more request is granted on trial: if it ends first, the others are long.

// Returns when `n` permits can be granted although they are not free, if no permit is released.
time_point adaptive::relief_at(amount n) const noexcept {
    auto const* const k = std::get_if<knee>(&algorithm_);
    if (!k || n > max_ - in_use_)
        return never;
    if (k->is_probing() && n <= with_long_calls(k->settled_seats()) - in_use_)
        return later(last_change_, patience_in_probe(k->latency()));
    return later(last_change_, patience(k->latency(), trials_.count));
}

// Prepares to take `n` permits, which are not free.
void adaptive::relieve(amount n, time_point now) noexcept {
    auto* const k = std::get_if<knee>(&algorithm_);
    if (in_use_ == 0 || !k || relief_at(n) > now)
        return;
    if (k->is_probing()) {
        k->abandon_probe(now);
        set_number();
    }
    if (n <= seats_ - in_use_)
        return;
    if (trials_.count == 0)
        trials_ = {.since = last_change_, .in_use = in_use_};
    if (trials_.count != 30)
        ++trials_.count;
}

void adaptive::end_trials(time_point granted, bool served) noexcept {
    if (served && granted > trials_.since)
        marks_.make_long(trials_.since, trials_.in_use);
    trials_.count = 0;
    set_number();
}

}  // namespace weir::inline v0_2::policy
