#include "support/virtual_limiters.hpp"

WEIR_INSTANTIATE_LIMITER(, weir::policy::leaky_bucket, weir::testing::timer)
WEIR_INSTANTIATE_LIMITER(, weir::policy::seats, weir::testing::timer)
WEIR_INSTANTIATE_LIMITER(, weir::policy::sliding_log, weir::testing::timer)
WEIR_INSTANTIATE_LIMITER(, weir::policy::smooth_bursty, weir::testing::timer)
WEIR_INSTANTIATE_LIMITER(, weir::policy::smooth_warming_up, weir::testing::timer)
WEIR_INSTANTIATE_LIMITER(, weir::policy::token_bucket, weir::testing::timer)
