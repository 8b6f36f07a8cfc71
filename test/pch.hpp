// The precompiled header of all tests: headers that are slow to compile and do not change. A test still includes the
// headers that it uses.
#pragma once

#include <boost/asio.hpp>
#include <boost/test/unit_test.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <ranges>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>
