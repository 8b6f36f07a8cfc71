// Compiled once for all tests: what is slow to compile and does not change. A test still includes
// what it uses.
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
