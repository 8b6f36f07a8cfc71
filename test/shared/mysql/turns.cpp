#include <weir/mysql/store.hpp>
#include <weir/shared/seats.hpp>

#include "shared/mysql/place.hpp"

namespace {

using place = support::mysql_place;

// Within a few seconds; without messages.
struct bounds {
    static constexpr double jain = 0.95;
    static constexpr double questions = 10;
    static constexpr double possible = 0.7;
};

}  // namespace

#include "shared/seats/turns.hpp"
