#include "copy.hpp"

#include <weir/redis/error.hpp>

weir::error_code COPY::code_of_weir() {
    return weir::errc::timed_out;
}

weir::error_code COPY::code_of_redis() {
    return weir::redis::errc::busy;
}
