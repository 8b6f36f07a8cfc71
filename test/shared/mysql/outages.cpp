#include <weir/mysql/store.hpp>

#include "shared/mysql/place.hpp"

using place = support::mysql_place;

#include "shared/outage_tests.hpp"
