#pragma once

#include <weir/outcome.hpp>
#include <weir/policy/call_marks.hpp>
#include <weir/policy/knee.hpp>
#include <weir/policy/policy.hpp>
#include <weir/policy/sample_window.hpp>
#include <weir/policy/seat_algorithms.hpp>
#include <weir/saved_numbers.hpp>

#include <algorithm>
#include <cstdint>
#include <variant>

namespace weir::inline v0_2 {

/// The algorithm that changes the number of seats, and its options.
using adaptive_options = std::variant<knee_options, gradient2_options, vegas_options, aimd_options>;

namespace policy {

/// An algorithm that uses the samples of windows.
template <class Algorithm>
class windowed {
public:
    using options_type = typename Algorithm::options_type;

    explicit windowed(options_type const& options)
        : algorithm_(options), window_(window_of(options)) {}

    [[nodiscard]] options_type const& options() const noexcept { return algorithm_.options(); }
    [[nodiscard]] amount seats() const noexcept { return algorithm_.seats(); }
    /// Adds a call that was not long. Returns whether `seats` may have changed.
    bool add(ended_call const& c) noexcept {
        auto const seen = window_.add(c.granted, c.now, c.in_use, c.dropped);
        if (!seen) [[likely]]
            return false;
        auto const before = seats();
        algorithm_.update(*seen);
        note_change(before, c.now);
        return true;
    }
    /// Continues from the state of the algorithm, with a new window.
    void take_over(windowed const& before, time_point now) noexcept {
        algorithm_.take_over(before.algorithm_);
        note_change(before.seats(), now);
    }
    void start_with(amount n, time_point now) noexcept {
        algorithm_.start_with(n);
        note_change(n, now);
    }
    [[nodiscard]] learned_seats learned() const noexcept { return algorithm_.learned(); }
    void start_from(learned_seats const& before, time_point) noexcept {
        algorithm_.start_from(before);
    }
    friend bool operator==(windowed const&, windowed const&) = default;

private:
    [[nodiscard]] static sample_window window_of(options_type const& o) noexcept {
        if constexpr (requires { o.ignore_below; })
            return {o.window, o.samples, o.ignore_below};
        else
            return {o.window, o.samples, duration(1)};
    }
    void note_change(amount before, time_point now) noexcept {
        if (seats() != before)
            window_.number_changed(now);
    }

    Algorithm algorithm_;
    sample_window window_;
};

/// A concurrency limit like `seats`, whose number of seats follows the throughput of the limited service.
///
/// Each permit is timed from its grant to its release. `report` records the outcome; a permit without a report counts
/// as a success, and a permit that is refunded or reported as ignored leaves no sample. The algorithm computes the next
/// number from the samples.
///
/// Guarantee: the number is always between `min` and `max`. The limiter never grants more than the number, with two
/// exceptions: it grants a request for more permits than there are seats when no other permit is in use, and a request
/// on trial, as below. If the number falls below the permits in use, the limiter revokes nothing, and grants nothing
/// until a request fits.
///
/// Long calls, such as streams, leave no sample: those during which each seat was released 16 to 32 times, as
/// `call_marks` counts it. With `knee`, each of them in progress adds a seat to the number, up to `max`. So a stream
/// takes a seat from the others for 16 to 32 calls, and then none. If long calls hold all seats, nothing can be learned
/// from releases. So a probe of `knee` ends when no permit was granted or released for 20 times the latency, at least
/// for 100 ms. Without a probe, after 20 times the latency, at least after 15 s, one request is granted on trial, beyond
/// the number; another one after twice the time, and so on. If it ends before the others, these are long calls.
///
/// Algorithms: `knee` is the default. No option of it depends on the service, and it keeps the latency of a service in
/// overload near 1.25 times the service's own latency. src/docs/explanation/adaptive-seats.md has its measured latencies
/// and throughputs. The options of the others must fit the service.
///
/// Measured by test/policy/adaptive_simulation.cpp: a service of 100 workers that take 100 ms, give or take a quarter,
/// gets more requests than it can serve. The limiter starts with 20 seats. The values are for `aimd` (5 requests may
/// queue at the service), `vegas` and `gradient2` (tolerance 1.1), in this order.
/// - Time until the number is within 15 % of 100: 5 s, 10 s, 10 s.
/// - Time until the number is within 15 % of 100 again, after the service becomes half as fast: 5 s, 60 s, 30 s.
/// - Throughput afterwards, as a share of the possible one: at least 97 %, 93 %, 97 %.
///
/// None of them drifts away under that load. The first item also holds for 50 to 150 workers that take 20 ms to 500 ms,
/// with one exception: `gradient2` keeps a queue of 4 plus a tenth of the best number, which is 18 % of 50. `aimd`
/// needs a service that rejects requests when it is overloaded, or a timeout a little above its latency. `vegas` and
/// `gradient2` compare the latency with the latency without load; if latencies vary by more than a half, `vegas` takes
/// random variation for a queue and stays too low. With its larger default tolerance of 1.5, `gradient2` settles at
/// 150. Before a service of a few workers they take a queue for the service itself: `gradient2` with its defaults and
/// `min` 1 keeps the latency of 4 workers above 10 times their own for minutes.
///
/// A saved state has what the algorithm has learned: the number, whether the start is over, and the latency of the
/// service itself, which `knee` measures again soon. Permits in use and samples are not saved.
///
/// Memory: constant, about 400 bytes. Each call takes constant time.
class adaptive {
public:
    using options_type = adaptive_options;
    /// Files of earlier versions have no state of adaptive seats.
    static constexpr bool was_not_saved = true;

    explicit adaptive(options_type const& options);

    void begin(time_point) noexcept {}
    /// Continues with the current number, and with the state of the algorithm if that stays the same.
    void take_over(adaptive& before, time_point now) noexcept;

    /// Saves the number, whether the start is over, and the known latency of the service; nothing if they are as at the
    /// beginning. Samples are not saved.
    void save(number_writer& to, time_point now) const;
    /// Reads no number as nothing learned.
    [[nodiscard]] bool load(number_reader& from, time_point then) noexcept;
    /// Continues from what `before` has learned, if that is anything. A number outside of `min` and `max` becomes the
    /// nearest of them.
    void resume(adaptive& before, time_point now, bool same) noexcept;

    /// Returns whether both have the same number and the same state of the algorithm.
    [[nodiscard]] bool is_alike(adaptive const& other, time_point) const noexcept {
        return *this == other;
    }

    [[nodiscard]] options_type options() const;
    /// Returns the current number of seats.
    [[nodiscard]] amount seats() const noexcept { return seats_; }
    [[nodiscard]] amount capacity() const noexcept { return max_; }
    [[nodiscard]] amount capacity_now() const noexcept { return seats_; }
    [[nodiscard]] bool timed() const noexcept { return true; }
    [[nodiscard]] amount remaining(time_point) const noexcept {
        return std::max<amount>(seats_ - in_use_, 0);
    }
    [[nodiscard]] amount debt(time_point) const noexcept {
        return std::max<amount>(in_use_ - seats_, 0);
    }
    [[nodiscard]] time_point ready_at(amount n, amount ahead, time_point now) const noexcept {
        auto const free = seats_ - in_use_;
        if (free >= n && free - n >= ahead) [[likely]]
            return now;
        bool const is_exception = ahead == 0 && (in_use_ == 0 || relief_at(n) <= now);
        return is_exception ? now : unknown;
    }

    /// Returns when `ready_at` may return `now` for `n` permits although none were released; `never` if it will not.
    [[nodiscard]] time_point ask_again_at(amount n, time_point now) const noexcept {
        auto const at = relief_at(n);
        return at > now ? at : never;
    }

    ticket take(amount n, time_point now) noexcept {
        if (n > seats_ - in_use_) [[unlikely]]
            relieve(n, now);
        if (auto const pause = pass(now); pause > shortest_pause) [[unlikely]]
            note_pause(pause, now);
        in_use_ += n;
        return stamp(marks_.stamp(now)) | code_of(outcome::success);
    }
    bool leave(amount n, ticket t, time_point now) noexcept;
    bool refund(amount n, ticket t, time_point now) noexcept;
    /// Merges two tickets: all permits count from the grant of `a`, and as dropped if either was.
    [[nodiscard]] ticket merge(ticket a, ticket b, amount) noexcept;
    /// Records the outcome of the work under `t`, and returns its new ticket. A later report replaces it.
    [[nodiscard]] ticket report(ticket t, outcome o) noexcept {
        return t == 0 ? t : (t & ~code_mask) | code_of(o);
    }

    friend bool operator==(adaptive const&, adaptive const&) = default;

private:
    using algorithm = std::variant<knee, windowed<gradient2>, windowed<vegas>, windowed<aimd>>;

    /// Requests that were granted beyond the number because no permit had been released for long.
    struct trials {
        std::uint8_t count = 0;
        time_point since{};  ///< no permit was released after it
        amount in_use = 0;   ///< the permits that were in use then

        friend bool operator==(trials const&, trials const&) = default;
    };

    // A ticket is the time of the grant, without the two highest bits, and the outcome. 0 is the ticket of a permit
    // without a record.
    static constexpr ticket code_mask = 3;
    [[nodiscard]] static ticket code_of(outcome o) noexcept { return static_cast<ticket>(o) + 1; }
    [[nodiscard]] static ticket stamp(time_point t) noexcept {
        return static_cast<ticket>(t.time_since_epoch().count()) << 2;
    }
    // Returns the recorded time of the grant, which is at most 73 years from `near`.
    [[nodiscard]] static time_point granted_at(ticket t, time_point near) noexcept {
        auto const ago = static_cast<duration::rep>(stamp(near) - (t & ~code_mask)) >> 2;
        return near - duration(ago);
    }

    // Adds the work since the last change. Returns its time in nanoseconds, which is unsigned since it may be the time
    // since `time_point::min()`.
    std::uint64_t pass(time_point now) noexcept {
        auto const time = static_cast<std::uint64_t>(now.time_since_epoch().count()) -
                          static_cast<std::uint64_t>(last_change_.time_since_epoch().count());
        work_ += static_cast<std::uint64_t>(in_use_ - marks_.long_calls()) * time;
        last_change_ = now;
        return time;
    }
    static constexpr std::uint64_t shortest_pause = 100'000'000;
    void note_pause(std::uint64_t time, time_point now) noexcept;
    [[nodiscard]] amount with_long_calls(amount seats) const noexcept;
    [[nodiscard]] time_point relief_at(amount n) const noexcept;
    void relieve(amount n, time_point now) noexcept;
    void end_trials(time_point granted, bool served) noexcept;
    void set_number() noexcept;
    void take_over_algorithm(adaptive const& before, time_point now) noexcept;
    [[nodiscard]] learned_seats learned() const noexcept;

    algorithm algorithm_;
    call_marks marks_;
    amount max_;
    amount seats_;
    amount in_use_ = 0;
    time_point last_change_ = time_point::min();  // the last grant or release
    std::uint64_t work_ = 0;                      // until then, as `ended_call::work`
    trials trials_;
};

}  // namespace policy
}  // namespace weir::inline v0_2
