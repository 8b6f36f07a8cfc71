#include <weir/detail/compiled.hpp>

template void weir::detail::built_with_boost<BOOST_VERSION>() noexcept;
