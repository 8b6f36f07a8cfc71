#include <weir/rate.hpp>

#include "check_option.hpp"
#include "duration_text.hpp"

namespace weir::inline v0_2 {

rate::rate(amount permits, duration period, exact) : permits_(permits), period_(period) {
    detail::check_option("rate", "permits", permits, 0, max_amount);
    detail::check_duration("rate", "period", period, duration(1));
}

std::strong_ordering operator<=>(rate const& a, rate const& b) noexcept {
    __extension__ using wide = __int128;
    auto const left = static_cast<wide>(a.permits_) * b.period_.count();
    auto const right = static_cast<wide>(b.permits_) * a.period_.count();
    return left < right   ? std::strong_ordering::less
           : left > right ? std::strong_ordering::greater
                          : std::strong_ordering::equal;
}

std::string to_string(rate const& r) {
    return std::to_string(r.permits()) + '/' + detail::to_text(r.period());
}

}  // namespace weir::inline v0_2
