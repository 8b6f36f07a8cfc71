#include <weir/detail/compiled.hpp>  // NOLINT(misc-include-cleaner): the template below

template void weir::detail::built_with_boost<BOOST_VERSION>() noexcept;
