#pragma once

#include <weir/outcome.hpp>
#include <weir/policy/policy.hpp>
#include <weir/policy/sample_window.hpp>
#include <weir/policy/seat_algorithms.hpp>

#include <algorithm>
#include <cstdint>
#include <variant>

namespace weir {

/// The algorithm that changes the number of seats, and its options.
using adaptive_options = std::variant<gradient2_options, vegas_options, aimd_options>;

namespace policy {

/// A concurrency limit like `seats`, whose number of seats follows the throughput of the limited service.
///
/// Each permit is timed from its grant to its release. `report` records the outcome; a permit without a report counts
/// as a success, and a permit that is refunded or reported as ignored leaves no sample. The algorithm computes the next
/// number from the samples of a window.
///
/// Guarantee: the number is always between `min` and `max`. The limiter never grants more than the number, with one
/// exception: it grants a request for more permits than there are seats when no other permit is in use. If the number
/// falls below the permits in use, the limiter revokes nothing, and grants nothing until a request fits.
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
/// 150.
///
/// Memory: constant, about 300 bytes. Each call takes constant time.
class adaptive {
public:
    using options_type = adaptive_options;

    explicit adaptive(options_type const& options);

    void begin(time_point) noexcept {}
    /// Continues with the current number, and with the state of the algorithm if that stays the same.
    void take_over(adaptive& before, time_point now) noexcept;

    /// Returns whether both have the same number and the same state of the algorithm.
    [[nodiscard]] bool is_alike(adaptive const& other, time_point) const noexcept {
        return *this == other;
    }

    [[nodiscard]] options_type options() const;
    /// Returns the current number of seats.
    [[nodiscard]] amount seats() const noexcept { return seats_; }
    [[nodiscard]] amount capacity() const noexcept { return most_; }
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
        bool const alone = in_use_ == 0 && ahead == 0;
        return alone || (free >= n && free - n >= ahead) ? now : unknown;
    }

    ticket take(amount n, time_point now) noexcept {
        in_use_ += n;
        return stamp(now) | code_of(outcome::success);
    }
    bool leave(amount n, ticket t, time_point now) noexcept;
    bool refund(amount n, ticket, time_point) noexcept {
        in_use_ -= n;
        return true;
    }
    /// Merges two tickets: all permits count from the grant of `a`, and as dropped if either was.
    [[nodiscard]] ticket merge(ticket a, ticket b, amount) noexcept;
    /// Records the outcome of the work under `t`, and returns its new ticket. A later report replaces it.
    [[nodiscard]] ticket report(ticket t, outcome o) noexcept {
        return t == 0 ? t : (t & ~code_mask) | code_of(o);
    }

    friend bool operator==(adaptive const&, adaptive const&) = default;

private:
    using algorithm = std::variant<gradient2, vegas, aimd>;

    // A ticket is the time of the grant, without the two highest bits, and the outcome. 0 is the ticket of a permit
    // without a record.
    static constexpr ticket code_mask = 3;
    [[nodiscard]] static ticket code_of(outcome o) noexcept { return static_cast<ticket>(o) + 1; }
    [[nodiscard]] static ticket stamp(time_point t) noexcept {
        return static_cast<ticket>(t.time_since_epoch().count()) << 2;
    }

    void set_number(time_point now) noexcept;

    algorithm algorithm_;
    sample_window window_;
    amount most_;
    amount seats_;
    amount in_use_ = 0;
};

}  // namespace policy
}  // namespace weir
