#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace weir {

/// A number of permits: seats, calls, bytes. Never negative where a caller names it.
using amount = std::int64_t;

/// The largest number that any limit may be set to: a quadrillion. Sums of a great many requests of
/// that size still fit.
inline constexpr amount max_amount = 1'000'000'000'000'000;

/// How a request stands in a queue whose order asks for more than when it came.
struct standing {
    /// For `queue_order::priority`: the class, 0 to 7. Lower ones go first, as the urgency in RFC 9218, which
    /// has 3 for what does not say, too.
    int priority = 3;

    /// For `queue_order::fair`: whom the request is for, such as a number or a hash of a tenant. Two that have
    /// the same flow share one turn. For `queue_order::shares`: the `partition_flow` of its partition.
    std::uint64_t flow = 0;
};

/// The last class of `standing::priority`.
inline constexpr int last_priority = 7;

/// How many permits a request asks for: any integral type but `bool`; and how it stands in the queue:
///
///     co_await calls.enter(2, 1s);
///     co_await calls.enter({2, {.priority = 1}}, 1s);
///     co_await calls.enter({1, {.flow = tenant}}, 1s);
///     co_await bytes.enter({1'024, 65'536}, 1s);         // as many as there are, from 1,024 on
///
/// Zero asks for nothing and is granted at once. A negative number throws `std::invalid_argument`, and so does
/// a class that there is not; more than `max_amount` is rejected as `errc::exceeds_capacity`.
///
/// A request for `min` to `max` waits until `min` can be granted, and is then granted as many as there are,
/// up to `max`: `permit::count()` tells how many. All else goes by `min`: its turn, what it is rejected for, how
/// much of the queue it takes, and what a `chain` takes of it. It has a class, but no flow.
class request {
public:
    constexpr request() noexcept = default;

    template <std::integral T>
        requires(!std::same_as<std::remove_cv_t<T>, bool>)
    constexpr request(T n) : packed_(packed(checked(n), standing().priority)) {}

    template <std::integral T>
        requires(!std::same_as<std::remove_cv_t<T>, bool>)
    constexpr request(T n, standing const& how)
        : flow_or_max_(how.flow), packed_(packed(checked(n), checked_class(how.priority))) {}

    /// Throws `std::invalid_argument` unless 1 <= `min` <= `max`.
    template <std::integral T, std::integral U>
        requires(!std::same_as<std::remove_cv_t<T>, bool> &&
                 !std::same_as<std::remove_cv_t<U>, bool>)
    constexpr request(T min, U max, int priority = standing().priority)
        : request(checked(min), checked(max), checked_class(priority), range_tag()) {}

    /// The fewest permits that it takes, and the most. They are the same unless a range was given.
    [[nodiscard]] constexpr amount count() const noexcept { return packed_ >> flag_bits; }
    [[nodiscard]] constexpr amount max() const noexcept {
        return is_range() ? static_cast<amount>(flow_or_max_) : count();
    }
    [[nodiscard]] constexpr std::uint64_t flow() const noexcept {
        return is_range() ? standing().flow : flow_or_max_;
    }
    [[nodiscard]] constexpr int priority() const noexcept {
        return static_cast<int>(packed_ & last_priority);
    }

private:
    static constexpr amount range_flag = last_priority + 1;
    static constexpr int flag_bits = 4;
    static constexpr amount max_count = std::numeric_limits<amount>::max() >> flag_bits;
    static_assert(range_flag < 1 << flag_bits && max_amount < max_count);

    struct range_tag {};
    constexpr request(amount min, amount max, int priority, range_tag)
        : flow_or_max_(static_cast<std::uint64_t>(max)),
          packed_(packed(min, priority) | range_flag) {
        if (min < 1 || min > max)
            throw std::invalid_argument(
                "weir: a request for " + std::to_string(min) + " to " + std::to_string(max) +
                " permits; it must be for 1 at least, and not for less at most");
    }
    [[nodiscard]] constexpr bool is_range() const noexcept { return (packed_ & range_flag) != 0; }

    template <class T>
    static constexpr amount checked(T n) {
        if constexpr (std::signed_integral<T>) {
            if (n < 0)
                throw std::invalid_argument(
                    "weir: a request for " + std::to_string(n) + " permits; it must be at least 0");
        }
        // Promoted, since characters are integral but cannot be compared.
        return std::cmp_greater(+n, max_count) ? max_count : static_cast<amount>(n);
    }

    static constexpr int checked_class(int priority) {
        if (priority < 0 || priority > last_priority)
            throw std::invalid_argument("weir: a request of priority " + std::to_string(priority) +
                                        "; it must be from 0 to " + std::to_string(last_priority));
        return priority;
    }

    [[nodiscard]] static constexpr amount packed(amount n, int priority) noexcept {
        return n << flag_bits | priority;
    }

    // Two words, which a call hands over in registers.
    std::uint64_t flow_or_max_ = standing().flow;
    amount packed_ = packed(1, standing().priority);
};
static_assert(sizeof(request) == 2 * sizeof(std::uint64_t));

}  // namespace weir
