#include <weir/postgres/store.hpp>
#include <weir/shared/seats.hpp>

#include "shared/postgres/place.hpp"

namespace {
using place = support::postgres_place;
}

#include "shared/seats/tests.hpp"
