#include <weir/redis/store.hpp>
#include <weir/shared/seats.hpp>

#include "shared/redis/place.hpp"

namespace {

using place = support::redis_place;

// Within a few seconds.
struct bounds {
    static constexpr double jain = 0.95;
    static constexpr double questions = 2;
    static constexpr double possible = 0.85;
};

}  // namespace

#include "shared/seats/turns.hpp"
