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

/// How many permits a request asks for: any integral type but `bool`.
///
/// Zero asks for nothing and is granted at once. A negative number throws `std::invalid_argument`;
/// one that no limiter could grant is kept, and refused as `errc::exceeds_capacity`.
class request {
public:
    constexpr request() noexcept = default;

    template <std::integral T>
        requires(!std::same_as<std::remove_cv_t<T>, bool>)
    constexpr request(T n) : n_(checked(n)) {}

    [[nodiscard]] constexpr amount count() const noexcept { return n_; }

private:
    template <class T>
    static constexpr amount checked(T n) {
        if constexpr (std::signed_integral<T>) {
            if (n < 0)
                throw std::invalid_argument(
                    "weir: a request for " + std::to_string(n) + " permits; it must be at least 0");
        }
        constexpr auto most = std::numeric_limits<amount>::max();
        // Promoted, since characters are integral but cannot be compared.
        return std::cmp_greater(+n, most) ? most : static_cast<amount>(n);
    }

    amount n_ = 1;
};

}  // namespace weir
