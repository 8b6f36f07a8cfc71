// 1 only a limiter without keys, such as weir::seats, can be named here
#include <weir/keyed.hpp>
#include <weir/seats.hpp>
#include <weir/testing.hpp>

using per_client = weir::testing::limiter<weir::keyed<int, weir::seats>>;
