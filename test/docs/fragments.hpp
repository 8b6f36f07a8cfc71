// Declarations that the fragments of README.md and src/docs use without defining them.
#pragma once

#include <weir/format.hpp>
#include <weir/prometheus.hpp>
#include <weir/testing.hpp>
#include <weir/weir.hpp>

#include <boost/asio.hpp>

#include <cassert>
#include <chrono>
#include <cstdint>
#include <optional>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using asio::ip::tcp;

extern asio::io_context ctx;

extern tcp::endpoint const server;
extern tcp::socket connection;
asio::awaitable<bool> talk(tcp::socket& connection);

asio::awaitable<void> job();
void query();
void retry_in(weir::duration);
void tell(std::optional<std::chrono::steady_clock::time_point>);
extern std::uint64_t const tenant;

template <class Limiter>
asio::awaitable<void> client(Limiter& limiter);
