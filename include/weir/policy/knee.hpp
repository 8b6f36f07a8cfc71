#pragma once

#include <weir/policy/seat_algorithms.hpp>
#include <weir/policy/settled_window.hpp>
#include <weir/time.hpp>

#include <cstdint>

namespace weir::inline v0_2::policy {

/// An algorithm that finds the fewest seats with which the service reaches its throughput, and adds a few: the knee of
/// the throughput as a function of the number.
///
/// By Little's law, the number in use is throughput times latency. So the best number is the present throughput times
/// the latency of the service itself. The algorithm always measures the throughput. It measures that latency by a
/// probe: it halves the number, and halves it again until the throughput falls. Then no request waits at the service,
/// and it shows its own latency. A probe at a fixed lower number would take a remaining queue for the service.
///
/// Between the probes the number moves towards the best number, and `headroom` more. It grows by `headroom` while the
/// service shows its own latency. It changes only while three quarters of it are in use.
///
/// The time from one probe to the next depends on the length of the last probe, on `probing` and on how well the
/// latency is known: 10 to 160 s, or up to 20 times the length of the last probe if that is longer. A probe begins at a
/// multiple of a power of two times 10 s of the limiter's clock, because limiters on one machine would measure each
/// other's requests if they did not probe at the same time. A large change of latency or throughput starts a probe at
/// once.
class knee {
public:
    using options_type = knee_options;

    explicit knee(options_type const& options);

    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    /// Returns the number of seats, without the seats of long calls.
    [[nodiscard]] amount seats() const noexcept { return is_probing() ? level_ : settled_seats(); }
    /// Adds a call that was not long. Returns whether `seats` may have changed.
    bool add(ended_call const& c) noexcept;
    /// Continues from the state of `before`.
    void take_over(knee const& before, time_point now) noexcept;
    void start_with(amount n, time_point now) noexcept;
    [[nodiscard]] learned_seats learned() const noexcept;
    /// Continues from what another one had learned at `then`, as `aimd::start_from`. The first window under load is
    /// followed by a probe, since the service may be another one.
    void start_from(learned_seats const& before, time_point then) noexcept;

    [[nodiscard]] bool is_probing() const noexcept { return mode_ == mode::probing; }
    /// Returns the number of seats without a probe.
    [[nodiscard]] amount settled_seats() const noexcept { return static_cast<amount>(limit_); }
    /// Returns the mean latency of the last window; 0 before the first one.
    [[nodiscard]] duration latency() const noexcept;
    /// Forgets the samples of the present window, since the load paused until now. `work` is `ended_call::work` now.
    void forget_samples(time_point now, std::uint64_t work) noexcept { window_.begin(now, work); }
    /// Ends a probe in which no call ends.
    void abandon_probe(time_point now) noexcept;

    friend bool operator==(knee const&, knee const&) = default;

private:
    enum class mode : std::uint8_t { starting, steady, probing };

    [[nodiscard]] bool is_enough(time_point now) const noexcept;
    void update(time_point now) noexcept;
    void start(double throughput, time_point now) noexcept;
    void steer(double throughput, time_point now) noexcept;
    void probe(double throughput, time_point now) noexcept;
    void look_deeper(time_point now) noexcept;
    void end_probe(time_point now, duration pause, bool aligned) noexcept;
    bool learn() noexcept;
    void move(double to) noexcept;
    void restart_window(time_point now) noexcept;

    options_type options_;
    settled_window window_;
    double limit_;
    double own_ = 0;         // the latency of the service itself, in nanoseconds; 0 if unknown
    double own_weight_ = 0;  // the number of its samples
    double throughput_ = 0;  // the mean of the last windows; during a probe, that before it
    double latency_ = 0;     // of the last window
    double grown_from_ = 0;  // the number before the last window, if that let it grow
    amount level_ = 0;       // the number during a probe
    amount hold_ = 0;        // the number of windows during which it does not grow
    mode mode_ = mode::starting;
    bool gently_ = false;  // it grows by one seat, since a call was dropped after the last probe
    time_point probe_began_{};
    time_point probe_ended_{};
    time_point next_probe_ = never;
};

}  // namespace weir::inline v0_2::policy
