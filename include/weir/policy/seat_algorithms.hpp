#pragma once

#include <weir/amount.hpp>
#include <weir/time.hpp>

#include <chrono>
#include <cstdint>

namespace weir {

/// Additive increase, multiplicative decrease: see `policy::aimd`.
struct aimd_options {
    /// How many seats there are to begin with, from `min` to `max`.
    amount seats = 20;
    /// Between which numbers they are moved, 1 to `max_amount`.
    amount min = 20;
    amount max = 200;
    /// Up to which number they are doubled in the beginning; 0 never does.
    amount slow_start = max_amount;

    /// What is left of the number after a drop, 0.5 to 0.99.
    double backoff = 0.9;
    /// A mean latency above it counts as a drop, too.
    duration timeout = std::chrono::seconds(5);

    /// How long is measured at least until the number is moved, and of how many samples.
    duration window{};
    amount samples = 10;

    friend bool operator==(aimd_options const&, aimd_options const&) = default;
};

/// The length of the queue, told by the latency: see `policy::vegas`.
struct vegas_options {
    /// As in `aimd_options`.
    amount seats = 20;
    amount min = 1;
    amount max = 1000;
    amount slow_start = max_amount;

    /// What is left of the number at most when there are too many, 0.5 to 1. With 1 it is the decimal
    /// logarithm of the number that goes.
    double backoff = 1;
    /// How much of each step is made, above 0 and up to 1.
    double smoothing = 1;
    /// The no-load latency is looked for again after so many samples for each seat, or half of that.
    amount probe = 30;
    /// Between which bounds the no-load latency is.
    duration no_load_min{1};
    duration no_load_max = forever;

    /// As in `aimd_options`.
    duration window{};
    amount samples = 100;

    friend bool operator==(vegas_options const&, vegas_options const&) = default;
};

/// The gradient of the latency: see `policy::gradient2`.
struct gradient2_options {
    /// As in `aimd_options`.
    amount seats = 20;
    amount min = 20;
    amount max = 200;
    amount slow_start = max_amount;

    /// So many times the no-load latency is nothing to worry about, from 1 to 10. In an overload that lasts
    /// the number settles at so many times the best.
    double tolerance = 1.5;
    /// By how many seats it grows in a window, before smoothing.
    amount queue = 4;
    /// How much of each step is made, above 0 and up to 1.
    double smoothing = 0.2;
    /// What is left of the number after a window with a drop, 0.5 to 1.
    double backoff = 0.9;
    /// Of how many windows the no-load latency is the mean.
    amount long_window = 600;
    /// The no-load latency is looked for again after so many windows, or half of that.
    amount probe = 60;
    /// Between which bounds it is.
    duration no_load_min{1};
    duration no_load_max = forever;

    /// As in `aimd_options`.
    duration window = std::chrono::seconds(1);
    amount samples = 10;
    /// Latencies below it are left out.
    duration ignore_below = std::chrono::microseconds(100);

    friend bool operator==(gradient2_options const&, gradient2_options const&) = default;
};

namespace policy {

/// What has come home in a window.
struct seat_sample {
    duration latency{};    ///< the mean of those that were served, 0 if none was
    amount in_flight = 0;  ///< the most permits that were out
    bool dropped = false;  ///< whether any was dropped
    amount count = 1;      ///< how many have come home
};

/// One more seat as long as nothing is dropped; after a drop a tenth of them goes.
///
/// The number grows only while at least half of it is in use.
/// Source: `AIMDLimit` of Netflix concurrency-limits. Slow start is added: TCP's, RFC 5681.
class aimd {
public:
    using options_type = aimd_options;

    explicit aimd(options_type const& options);

    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    [[nodiscard]] amount seats() const noexcept { return limit_; }
    void update(seat_sample const& s) noexcept;
    /// Goes on from what `before` has learned.
    void take_over(aimd const& before) noexcept;
    void start_with(amount n) noexcept;
    friend bool operator==(aimd const&, aimd const&) = default;

private:
    options_type options_;
    amount limit_;
    bool slow_;
};

/// A mean that forgets: of the first `warm_up` values it is the plain mean, afterwards each new one counts
/// for 2 / (window + 1).
/// Source: `ExpAvgMeasurement` of Netflix concurrency-limits.
class exponential_mean {
public:
    explicit exponential_mean(amount window, amount warm_up = 10) noexcept
        : factor_(2. / (static_cast<double>(window) + 1)), warm_up_(warm_up) {}

    double add(double x) noexcept;
    /// Goes on from `x`, as if that had been the mean for long.
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

/// When the no-load latency is to be looked for again. By chance, since many that do so together would be
/// measured together.
class probe_clock {
public:
    void pass(amount n) noexcept { passed_ += n; }
    /// Whether so much of `interval` has passed as is waited for, which is between a half and the whole.
    [[nodiscard]] bool is_due(double interval) const noexcept {
        return static_cast<double>(passed_) >= share_ * interval;
    }
    /// Whether it is long enough since the last time for one that is not regular.
    [[nodiscard]] bool may_be_early(double interval) const noexcept { return is_due(interval / 8); }
    /// From now on. `noise` is anything that is not the same everywhere.
    void restart(std::uint64_t noise) noexcept;
    friend bool operator==(probe_clock const&, probe_clock const&) = default;

private:
    amount passed_ = 0;
    double share_ = 1;
    std::uint64_t state_ = 0;
};

/// Keeps a short queue at the server: between 3 and 6 permits for each decimal digit of the number, told by
/// the latency and the least that it has ever been.
///
/// The least latency is forgotten from time to time. Then a window is measured with half of the seats, in
/// which no queue can be, so that a queue which lasts is never taken for the service itself.
/// Source: `VegasLimit` of Netflix concurrency-limits, after Brakmo and Peterson, "TCP Vegas", 1995. Added
/// are slow start, bounds of the no-load latency, and that a probe lowers the number, as BBR does.
class vegas {
public:
    using options_type = vegas_options;

    explicit vegas(options_type const& options);

    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    [[nodiscard]] amount seats() const noexcept;
    void update(seat_sample const& s) noexcept;
    void take_over(vegas const& before) noexcept;
    void start_with(amount n) noexcept;
    friend bool operator==(vegas const&, vegas const&) = default;

private:
    void learn(duration latency) noexcept;

    options_type options_;
    double limit_;
    double no_load_ = 0;  // in nanoseconds; 0 if it is not known
    probe_clock clock_;
    bool probing_ = false;
    bool fresh_ = false;  // the no-load latency has been measured in the last window
    bool slow_;
};

/// Holds the latency of a window against its mean of the last ten minutes: the number is cut by as much as it
/// has risen beyond the tolerance, and grows a little while it has not.
///
/// As in `vegas`, a window is measured with half of the seats from time to time, from which the mean goes on.
/// Source: `Gradient2Limit` of Netflix concurrency-limits. Added are slow start, bounds of the no-load
/// latency, that the number does not grow while it is cut (which made it creep under steady overload), the
/// probe, and that a drop counts.
class gradient2 {
public:
    using options_type = gradient2_options;

    explicit gradient2(options_type const& options);

    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    [[nodiscard]] amount seats() const noexcept;
    void update(seat_sample const& s) noexcept;
    void take_over(gradient2 const& before) noexcept;
    void start_with(amount n) noexcept;
    friend bool operator==(gradient2 const&, gradient2 const&) = default;

private:
    void move(double to) noexcept;

    options_type options_;
    double limit_;
    exponential_mean long_;
    probe_clock clock_;
    bool probing_ = false;
    bool fresh_ = false;  // the mean has been set in the last window
    bool slow_;
};

}  // namespace policy
}  // namespace weir
