#pragma once

#include <weir/outcome.hpp>
#include <weir/policy/policy.hpp>
#include <weir/policy/sample_window.hpp>
#include <weir/policy/seat_algorithms.hpp>

#include <algorithm>
#include <cstdint>
#include <variant>

namespace weir {

/// By which algorithm the number of seats is moved, and how.
using adaptive_options = std::variant<gradient2_options, vegas_options, aimd_options>;

namespace policy {

/// Concurrency, as `seats`, of a number that follows what the service behind it can do.
///
/// Each permit is timed from its grant to when it comes home. `report` says how it went; what is not
/// reported was a success, and what is refunded or reported as ignored leaves no sample. Of the samples
/// of a window the algorithm makes the next number.
///
/// Guarantee: the number is always between `min` and `max`. Nothing is granted beyond it, but for a
/// request that asks for more than there are: it is granted when it is alone. When the number falls below what
/// is in use nothing is revoked, and nothing is granted until it fits.
///
/// Before a service of 100 workers that take 100 ms, give or take a quarter, and with more requests than it can
/// serve, starting with 20 seats (measured by test/policy/adaptive_simulation.cpp):
///
/// |                           | `aimd`, 5 may queue | `vegas` | `gradient2`, tolerance 1.1 |
/// |---------------------------|---------------------|---------|----------------------------|
/// | within 15 % of 100 after  | 5 s                 | 10 s    | 10 s                       |
/// | again, when half as fast  | 5 s                 | 60 s    | 30 s                       |
/// | lets through at least     | 97 %                | 93 %    | 97 %                       |
///
/// None creeps while that lasts. The first line holds for 50 to 150 workers that take 20 ms to 500 ms as well,
/// but that `gradient2` lets 4 and a tenth of the best number queue up, which is 18 % of 50. `aimd` needs a
/// service that rejects what is too much, or a timeout that is a little above its latency. `vegas` and
/// `gradient2` hold a latency against one without load; where latencies vary by more than a half, `vegas` takes
/// chance for a queue and stays too low. With its default tolerance of 1.5, which forgives much, `gradient2`
/// settles at 150.
///
/// Memory: constant, about 300 bytes. Each call takes constant time.
class adaptive {
public:
    using options_type = adaptive_options;

    explicit adaptive(options_type const& options);

    void begin(time_point) noexcept {}
    /// Goes on with the number that there is, and what has been learned if the algorithm is the same.
    void take_over(adaptive& before, time_point now) noexcept;

    /// Only if both have learned the same.
    [[nodiscard]] bool is_alike(adaptive const& other, time_point) const noexcept {
        return *this == other;
    }

    [[nodiscard]] options_type options() const;
    /// How many seats there are at the moment.
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
    /// All of them count from when those of `a` were granted, and as dropped if either was.
    [[nodiscard]] ticket merge(ticket a, ticket b, amount) noexcept;
    /// How it went for the holder of `t`, which has another ticket from then on. The last word counts.
    [[nodiscard]] ticket report(ticket t, outcome o) noexcept {
        return t == 0 ? t : (t & ~code_mask) | code_of(o);
    }

    friend bool operator==(adaptive const&, adaptive const&) = default;

private:
    using algorithm = std::variant<gradient2, vegas, aimd>;

    // A ticket is the time of the grant, without the two highest bits, and how it went. 0 is of a permit of
    // which nothing is known.
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
