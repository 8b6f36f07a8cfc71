#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace weir::inline v0_2 {

/// A number of permits: seats, calls, bytes. A caller never passes a negative number.
using amount = std::int64_t;

/// The maximum of every limit: a quadrillion. Sums of very many requests of that size do not overflow.
inline constexpr amount max_amount = 1'000'000'000'000'000;

/// The value of `queue_options::max_waiting` and `max_waiting_permits` without a bound.
inline constexpr amount unlimited = std::numeric_limits<amount>::max();

/// The position of a request in a queue whose order does not depend on the arrival alone. `queue_order` defines which
/// of these an order uses.
struct standing {
    /// The class for `queue_order::priority` and `fair`, 0 (first) to 7. The default is 3, as for the urgency in
    /// RFC 9218.
    int priority = 3;

    /// For `queue_order::fair`: the flow of the request, such as a number or a hash of a tenant. Requests with the same
    /// flow and class share one turn. For `queue_order::shares`: the `partition_flow` of its partition.
    std::uint64_t flow = 0;

    /// For `queue_order::fair`: the weight of the request, 1 to 32. Waiting flows of one class get permits in
    /// proportion to their weights.
    int weight = 1;
};

/// The last class of `standing::priority`.
inline constexpr int last_priority = 7;

/// The largest `standing::weight`.
inline constexpr int max_weight = 32;

namespace detail {

/// The least common multiple of all weights, about 2^47: a permit divided by a weight is a whole number of such parts.
inline constexpr std::uint64_t all_weights = 144'403'552'893'600;
static_assert(max_weight == 32);

/// An integer that is a number: neither a `bool` nor a character.
template <class T>
concept number =
    std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> &&
    !std::same_as<T, wchar_t> && !std::same_as<T, char8_t> && !std::same_as<T, char16_t> &&
    !std::same_as<T, char32_t>;

/// A number above every amount of permits.
inline constexpr amount excessive = std::numeric_limits<amount>::max() >> 4;
static_assert(max_amount < excessive);

// These throw `std::invalid_argument`. They are separate functions so that the checks are short and become inline.

[[noreturn, gnu::noinline, gnu::cold]] inline void throw_negative(char const* what, amount n) {
    throw std::invalid_argument("weir: " + std::string(what) + " " + std::to_string(n) +
                                " permits; the number must not be negative");
}
[[noreturn, gnu::noinline, gnu::cold]] inline void throw_class(int priority, int last) {
    throw std::invalid_argument("weir: a request of priority " + std::to_string(priority) +
                                "; the priority must be from 0 to " + std::to_string(last));
}
[[noreturn, gnu::noinline, gnu::cold]] inline void throw_weight(int weight, int most) {
    throw std::invalid_argument("weir: a request of weight " + std::to_string(weight) +
                                "; the weight must be from 1 to " + std::to_string(most));
}
[[noreturn, gnu::noinline, gnu::cold]] inline void throw_range(amount min, amount max) {
    throw std::invalid_argument(
        "weir: a request for " + std::to_string(min) + " to " + std::to_string(max) +
        " permits; the minimum must be at least 1 and at most the maximum");
}

/// Returns `n`, or `excessive` if `n` is greater.
///
/// @throws std::invalid_argument if `n` is negative; `what` names it
template <number T>
[[nodiscard]] constexpr amount checked_amount(T n, char const* what) {
    if constexpr (std::signed_integral<T>) {
        if (n < 0)
            throw_negative(what, static_cast<amount>(n));
    }
    return std::cmp_greater(n, excessive) ? excessive : static_cast<amount>(n);
}

}  // namespace detail

/// The number of permits that a request asks for, and its `standing` in the queue. The number may have any integral
/// type except `bool` and the character types.
///
///     co_await calls.enter(2, 1s);
///     co_await calls.enter({2, {.priority = 1}}, 1s);
///     co_await calls.enter({1, {.flow = tenant, .weight = 3}}, 1s);
///     co_await bytes.enter(weir::request::between(1'024, 65'536), 1s);   // all available permits, at least 1,024
///
/// A request for 0 permits is granted immediately. A negative number, class or weight out of
/// bounds throws `std::invalid_argument`; a number above `max_amount` is rejected with `errc::exceeds_capacity`.
///
/// A request `between` `min` and `max` waits until `min` permits can be granted, and then gets all available permits up to
/// `max`: `permit::count()` is their number. Everything else depends on `min`: its grant time, its rejections, its part
/// of the queue, and the permits that a `chain` takes. It has a class, but no flow, and the weight 1.
class request {
public:
    /// A request for 1 permit.
    constexpr request() noexcept = default;

    /// A request for `n` permits.
    template <detail::number T>
    constexpr request(T n) : packed_(packed(checked(n), standing().priority)) {}

    /// A request for `n` permits with a class, a flow or a weight.
    template <detail::number T>
    constexpr request(T n, standing const& how)
        : flow_or_max_(how.flow),
          packed_(packed(checked(n), checked_class(how.priority)) |
                  (checked_weight(how.weight) - standing().weight) << weight_shift) {}

    /// Returns a request for all available permits, but at least `min` and at most `max`, with a class.
    ///
    /// @throws std::invalid_argument unless 1 <= `min` <= `max`
    template <detail::number T, detail::number U>
    [[nodiscard]] static constexpr request between(T min, U max,
                                                   int priority = standing().priority) {
        return request(checked(min), checked(max), checked_class(priority), range_tag());
    }

    /// Returns the minimum number of permits.
    [[nodiscard]] constexpr amount count() const noexcept { return packed_ >> flag_bits; }
    /// Returns the maximum number of permits; it differs from `count()` only for a range.
    [[nodiscard]] constexpr amount max() const noexcept {
        return is_range() ? static_cast<amount>(flow_or_max_) : count();
    }
    /// Returns `standing::flow`; the default for a range.
    [[nodiscard]] constexpr std::uint64_t flow() const noexcept {
        return is_range() ? standing().flow : flow_or_max_;
    }
    /// Returns `standing::priority`.
    [[nodiscard]] constexpr int priority() const noexcept {
        return static_cast<int>(packed_ & last_priority);
    }
    /// Returns `standing::weight`.
    [[nodiscard]] constexpr int weight() const noexcept {
        return static_cast<int>(packed_ >> weight_shift & (max_weight - 1)) + standing().weight;
    }

    /// Returns whether both ask for the same number with the same standing.
    friend constexpr bool operator==(request const&, request const&) noexcept = default;

private:
    static constexpr amount range_flag = last_priority + 1;
    static constexpr int weight_shift = 4;
    static constexpr int flag_bits = 9;
    static constexpr amount most = std::numeric_limits<amount>::max() >> flag_bits;
    static_assert(range_flag < 1 << weight_shift && max_weight <= 1 << (flag_bits - weight_shift) &&
                  max_amount < most);

    struct range_tag {};
    constexpr request(amount min, amount max, int priority, range_tag)
        : flow_or_max_(static_cast<std::uint64_t>(max)),
          packed_(packed(min, priority) | range_flag) {
        if (min < 1 || min > max)
            detail::throw_range(min, max);
    }
    [[nodiscard]] constexpr bool is_range() const noexcept { return (packed_ & range_flag) != 0; }

    template <class T>
    static constexpr amount checked(T n) {
        return std::min(detail::checked_amount(n, "a request for"), most);
    }

    static constexpr int checked_class(int priority) {
        if (priority < 0 || priority > last_priority)
            detail::throw_class(priority, last_priority);
        return priority;
    }
    static constexpr amount checked_weight(int weight) {
        if (weight < 1 || weight > max_weight)
            detail::throw_weight(weight, max_weight);
        return weight;
    }

    [[nodiscard]] static constexpr amount packed(amount n, int priority) noexcept {
        return n << flag_bits | priority;
    }

    // Two words, so that a call passes them in registers.
    std::uint64_t flow_or_max_ = standing().flow;
    amount packed_ = packed(1, standing().priority);
};
static_assert(sizeof(request) == 2 * sizeof(std::uint64_t));

}  // namespace weir::inline v0_2
