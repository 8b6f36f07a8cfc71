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
    /// the same key share one turn.
    std::uint64_t key = 0;
};

/// The last class of `standing::priority`.
inline constexpr int last_priority = 7;

/// How many permits a request asks for: any integral type but `bool`; and how it stands in the queue:
///
///     co_await calls.enter(2, 1s);
///     co_await calls.enter({2, {.priority = 1}}, 1s);
///     co_await calls.enter({1, {.key = tenant}}, 1s);
///
/// Zero asks for nothing and is granted at once. A negative number throws `std::invalid_argument`, and so does
/// a class that there is not; more than `max_amount` is refused as `errc::exceeds_capacity`.
class request {
public:
    constexpr request() noexcept = default;

    template <std::integral T>
        requires(!std::same_as<std::remove_cv_t<T>, bool>)
    constexpr request(T n) : packed_(packed(checked(n), standing().priority)) {}

    template <std::integral T>
        requires(!std::same_as<std::remove_cv_t<T>, bool>)
    constexpr request(T n, standing const& how)
        : key_(how.key), packed_(packed(checked(n), checked_class(how.priority))) {}

    [[nodiscard]] constexpr amount count() const noexcept { return packed_ >> priority_bits; }
    [[nodiscard]] constexpr std::uint64_t key() const noexcept { return key_; }
    [[nodiscard]] constexpr int priority() const noexcept {
        return static_cast<int>(packed_ & last_priority);
    }

private:
    static constexpr int priority_bits = 3;
    static constexpr amount max_count = std::numeric_limits<amount>::max() >> priority_bits;
    static_assert(last_priority < 1 << priority_bits && max_amount < max_count);

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
        return n << priority_bits | priority;
    }

    // Two words, which a call hands over in registers.
    std::uint64_t key_ = 0;
    amount packed_ = packed(1, standing().priority);
};
static_assert(sizeof(request) == 2 * sizeof(std::uint64_t));

}  // namespace weir
