#pragma once

#include <weir/amount.hpp>
#include <weir/time.hpp>

#include <chrono>
#include <cstdint>

namespace weir::inline v0_2 {

/// The options of the algorithm that finds the knee of the throughput: see `policy::knee`.
struct knee_options {
    /// The initial number of seats, from `min` to `max`.
    amount seats = 4;
    /// The minimum number of seats, 1 to `max`.
    amount min = 1;
    /// The maximum number of seats, `min` to `max_amount`.
    amount max = 1000;
    /// The seats beyond the best number, as a part of it, 0.05 to 2. It is also the queue at the service, as a part of
    /// the service's own latency.
    double headroom = 0.25;
    /// The part of the throughput that the probes for the service's own latency may cost, 0.001 to 0.2.
    double probing = 0.01;

    friend bool operator==(knee_options const&, knee_options const&) = default;
};

/// The options of additive increase, multiplicative decrease: see `policy::aimd`.
struct aimd_options {
    /// The initial number of seats, from `min` to `max`.
    amount seats = 20;
    /// The minimum number of seats, 1 to `max`.
    amount min = 20;
    /// The maximum number of seats, `min` to `max_amount`.
    amount max = 200;
    /// The number up to which the seats are doubled at the start; 0 never doubles them.
    amount slow_start = max_amount;

    /// The factor of the number after a drop, 0.5 to 0.99.
    double backoff = 0.9;
    /// The mean latency above which a window counts as a drop, too.
    duration timeout = std::chrono::seconds(5);

    /// The shortest time of a window, after which the number may change.
    duration window{};
    /// The minimum number of samples of a window.
    amount samples = 10;

    friend bool operator==(aimd_options const&, aimd_options const&) = default;
};

/// The options of the algorithm that computes the queue length from the latency: see `policy::vegas`.
struct vegas_options {
    /// The initial number of seats, from `min` to `max`.
    amount seats = 20;
    /// The minimum number of seats, 1 to `max`.
    amount min = 1;
    /// The maximum number of seats, `min` to `max_amount`.
    amount max = 1000;
    /// The number up to which the seats are doubled at the start; 0 never doubles them.
    amount slow_start = max_amount;

    /// The largest factor of the number after a decrease, 0.5 to 1. With 1 the number decreases by its decimal
    /// logarithm.
    double backoff = 1;
    /// The part of each step that is made, above 0 and up to 1.
    double smoothing = 1;
    /// The number of samples per seat after which the no-load latency is measured again; at random, down to half of it.
    amount probe = 30;
    /// The lower bound of the no-load latency.
    duration no_load_min{1};
    /// The upper bound of the no-load latency.
    duration no_load_max = forever;

    /// The shortest time of a window, after which the number may change.
    duration window{};
    /// The minimum number of samples of a window.
    amount samples = 100;

    friend bool operator==(vegas_options const&, vegas_options const&) = default;
};

/// The options of the algorithm that uses the gradient of the latency: see `policy::gradient2`.
struct gradient2_options {
    /// The initial number of seats, from `min` to `max`.
    amount seats = 20;
    /// The minimum number of seats, 1 to `max`.
    amount min = 20;
    /// The maximum number of seats, `min` to `max_amount`.
    amount max = 200;
    /// The number up to which the seats are doubled at the start; 0 never doubles them.
    amount slow_start = max_amount;

    /// The multiple of the no-load latency that is accepted, from 1 to 10. In a lasting overload the number settles at
    /// this multiple of the best number.
    double tolerance = 1.5;
    /// The number of seats by which it grows per window, before smoothing.
    amount queue = 4;
    /// The part of each step that is made, above 0 and up to 1.
    double smoothing = 0.2;
    /// The factor of the number after a window with a drop, 0.5 to 1.
    double backoff = 0.9;
    /// The number of windows over which the no-load latency is averaged.
    amount long_window = 600;
    /// The number of windows after which the no-load latency is measured again; at random, down to half of it.
    amount probe = 60;
    /// The lower bound of the no-load latency.
    duration no_load_min{1};
    /// The upper bound of the no-load latency.
    duration no_load_max = forever;

    /// The shortest time of a window, after which the number may change.
    duration window = std::chrono::seconds(1);
    /// The minimum number of samples of a window.
    amount samples = 10;
    /// The latency below which samples are ignored.
    duration ignore_below = std::chrono::microseconds(100);

    friend bool operator==(gradient2_options const&, gradient2_options const&) = default;
};

namespace policy {

/// A call that ended: the work under `count` permits that were released together.
struct ended_call {
    /// The time of the grant.
    time_point granted{};
    /// The time of the release.
    time_point now{};
    /// The number of permits.
    amount count = 1;
    /// The permits in use of calls that are not long, with this call.
    amount in_progress = 1;
    /// All permits in use, with this call.
    amount in_use = 1;
    /// Whether the outcome was `dropped`.
    bool dropped = false;
    /// The permits in progress times the nanoseconds for which they were, summed up until now, modulo 2^64.
    std::uint64_t work = 0;
};

/// The released permits of a window.
struct seat_sample {
    duration latency{};    ///< the mean latency of successful requests, 0 if there were none
    amount in_flight = 0;  ///< the most permits in use
    bool dropped = false;  ///< whether any request was dropped
    amount count = 1;      ///< the number of released permits
};

/// The saved part of the state of an algorithm: its results, without its samples.
struct learned_seats {
    amount seats = 0;          ///< the number outside of a probe
    bool has_started = false;  ///< whether the start is over, in which the number is doubled
    duration latency{};        ///< the latency of the service without load; 0 if unknown

    friend bool operator==(learned_seats const&, learned_seats const&) = default;
};
/// The longest latency in `learned_seats`, 146 years.
inline constexpr duration longest_learned_latency{std::int64_t{1} << 62};
/// Returns a latency as `learned_seats` has it.
[[nodiscard]] duration whole_latency(double nanoseconds) noexcept;

/// An algorithm that adds one seat per window without a drop, and by default removes a tenth of the seats after a drop.
///
/// The number grows only while at least half of it is in use.
///
/// Source: `AIMDLimit` of Netflix concurrency-limits. Slow start is added, as TCP's in RFC 5681.
class aimd {
public:
    using options_type = aimd_options;

    explicit aimd(options_type const& options);

    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    [[nodiscard]] amount seats() const noexcept { return limit_; }
    void update(seat_sample const& s) noexcept;
    /// Continues from the state of `before`.
    void take_over(aimd const& before) noexcept;
    void start_with(amount n) noexcept;
    [[nodiscard]] learned_seats learned() const noexcept { return {limit_, !slow_, {}}; }
    /// Continues from what another one has learned; a number outside of the options becomes the nearest one in them.
    void start_from(learned_seats const& before) noexcept;
    friend bool operator==(aimd const&, aimd const&) = default;

private:
    options_type options_;
    amount limit_;
    bool slow_;
};

/// An exponential moving average. It is the plain mean of the first `warm_up` values; afterwards each new value has the
/// weight 2 / (window + 1).
///
/// Source: `ExpAvgMeasurement` of Netflix concurrency-limits.
class exponential_mean {
public:
    explicit exponential_mean(amount window, amount warm_up = 10) noexcept
        : factor_(2. / (static_cast<double>(window) + 1)), warm_up_(warm_up) {}

    double add(double x) noexcept;
    /// Continues from `x`, as if that had been the mean for a long time.
    void set(double x) noexcept {
        value_ = x;
        count_ = warm_up_;
    }
    void scale(double by) noexcept { value_ *= by; }
    [[nodiscard]] double value() const noexcept { return value_; }
    friend bool operator==(exponential_mean const&, exponential_mean const&) = default;

private:
    double factor_;
    amount warm_up_;
    amount count_ = 0;
    double value_ = 0;
};

/// Decides when to measure the no-load latency again. It decides at random, because limiters that probe at the same
/// time would measure each other's load.
class probe_clock {
public:
    void pass(amount n) noexcept { passed_ += n; }
    /// Returns whether the awaited part of `interval` has passed, which is between a half and the whole.
    [[nodiscard]] bool is_due(double interval) const noexcept {
        return static_cast<double>(passed_) >= share_ * interval;
    }
    /// Returns whether an extra probe is allowed so soon after the last one.
    [[nodiscard]] bool may_be_early(double interval) const noexcept { return is_due(interval / 8); }
    /// Restarts the interval now. `noise` is any value that differs between limiters.
    void restart(std::uint64_t noise) noexcept;
    friend bool operator==(probe_clock const&, probe_clock const&) = default;

private:
    amount passed_ = 0;
    double share_ = 1;
    std::uint64_t state_ = 0;
};

/// An algorithm that keeps a short queue at the server: between 3 and 6 permits for each decimal digit of the number,
/// computed from the latency and its minimum.
///
/// The minimum latency is reset from time to time. Then a window is measured with half of the seats, so that there can
/// be no queue in it. So a lasting queue is never taken for the latency of the service itself.
///
/// Source: `VegasLimit` of Netflix concurrency-limits, after Brakmo and Peterson, "TCP Vegas", 1995. Added are slow
/// start, bounds of the no-load latency, and probes that lower the number, as in BBR.
class vegas {
public:
    using options_type = vegas_options;

    explicit vegas(options_type const& options);

    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    [[nodiscard]] amount seats() const noexcept;
    void update(seat_sample const& s) noexcept;
    void take_over(vegas const& before) noexcept;
    void start_with(amount n) noexcept;
    [[nodiscard]] learned_seats learned() const noexcept;
    /// Continues from what another one has learned, as `aimd::start_from`.
    void start_from(learned_seats const& before) noexcept;
    friend bool operator==(vegas const&, vegas const&) = default;

private:
    void learn(duration latency) noexcept;

    options_type options_;
    double limit_;
    double no_load_ = 0;  // in nanoseconds; 0 if unknown
    probe_clock clock_;
    bool probing_ = false;
    bool fresh_ = false;  // the last window measured the no-load latency
    bool slow_;
};

/// An algorithm that compares the latency of a window with its mean of the last ten minutes. It lowers the number in
/// proportion to a rise beyond the tolerance, and otherwise raises it a little.
///
/// As in `vegas`, a window is measured with half of the seats from time to time, and the mean continues from it.
///
/// Source: `Gradient2Limit` of Netflix concurrency-limits. Added are slow start, bounds of the no-load latency, no
/// growth while the number is cut (that growth made it creep under steady overload), the probe, and the effect of
/// drops.
class gradient2 {
public:
    using options_type = gradient2_options;

    explicit gradient2(options_type const& options);

    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    [[nodiscard]] amount seats() const noexcept;
    void update(seat_sample const& s) noexcept;
    void take_over(gradient2 const& before) noexcept;
    void start_with(amount n) noexcept;
    [[nodiscard]] learned_seats learned() const noexcept;
    /// Continues from what another one has learned, as `aimd::start_from`.
    void start_from(learned_seats const& before) noexcept;
    friend bool operator==(gradient2 const&, gradient2 const&) = default;

private:
    void move(double to) noexcept;

    options_type options_;
    double limit_;
    exponential_mean long_;
    probe_clock clock_;
    bool probing_ = false;
    bool fresh_ = false;  // the last window set the mean
    bool slow_;
};

}  // namespace policy
}  // namespace weir::inline v0_2
