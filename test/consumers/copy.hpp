#pragma once

#include <weir/error.hpp>

#define EXPORTED [[gnu::visibility("default")]]

/// Each namespace is a shared object with a copy of weir.
namespace first {
EXPORTED weir::error_code code_of_weir();
EXPORTED weir::error_code code_of_redis();
}  // namespace first
namespace second {
EXPORTED weir::error_code code_of_weir();
EXPORTED weir::error_code code_of_redis();
}  // namespace second
