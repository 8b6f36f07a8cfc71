#include <weir/postgres/store.hpp>
#include <weir/shared/limiter.hpp>

#include "shared/postgres/place.hpp"

namespace {

using place = support::postgres_place;

}  // namespace

#include "shared/process_tests.hpp"
#include "shared/store_tests.hpp"
