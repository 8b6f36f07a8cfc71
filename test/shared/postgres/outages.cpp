#include <weir/postgres/store.hpp>

#include "shared/postgres/place.hpp"

using place = support::postgres_place;

#include "shared/outage_tests.hpp"
