#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>
#include <variant>

namespace weir::inline v0_2::detail {

/// Calls `f` with the alternative of `v`, which must have a value. Unlike this function, `std::visit` of libstdc++
/// calls variants of more than 11 alternatives through a table, so that the compiler inlines nothing.
template <std::size_t I = 0, class F, class Variant>
constexpr decltype(auto) visit_inline(F&& f, Variant& v) {
    if constexpr (I + 1 == std::variant_size_v<std::remove_const_t<Variant>>) {
        return std::forward<F>(f)(*std::get_if<I>(&v));
    } else {
        if (v.index() == I)
            return std::forward<F>(f)(*std::get_if<I>(&v));
        return visit_inline<I + 1>(std::forward<F>(f), v);
    }
}

}  // namespace weir::inline v0_2::detail
