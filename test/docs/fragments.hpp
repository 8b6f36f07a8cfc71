// Declarations that the fragments of README.md and src/docs use without defining them.
#pragma once

#include <weir/format.hpp>
#include <weir/prometheus.hpp>
#include <weir/testing.hpp>
#include <weir/weir.hpp>

#include <boost/asio.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>

#include <cassert>
#include <chrono>
#include <cstdint>
#include <exception>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using asio::ip::tcp;

extern asio::io_context ctx;
extern weir::seats workers_in_use;
extern weir::sliding_log calls;

extern tcp::endpoint const server;
extern tcp::socket connection;
asio::awaitable<bool> talk(tcp::socket& connection);

asio::awaitable<void> job();
void query();
void retry_in(weir::duration);
void respond_429(std::chrono::seconds);
void start_work(weir::permit);
void tell(std::optional<std::chrono::steady_clock::time_point>);
asio::awaitable<void> work_on(int);
asio::awaitable<std::optional<std::chrono::seconds>> retry_after_of_response();
extern std::uint64_t const tenant, large_tenant;

struct response_of_api {
    int status;
    std::vector<std::pair<std::string, std::string>> fields;
};
asio::awaitable<response_of_api> call_api();
asio::awaitable<bool> is_password_right();
asio::awaitable<void> fetch(std::string const& host);
