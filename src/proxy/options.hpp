#pragma once

#include <weir/adaptive_seats.hpp>
#include <weir/amount.hpp>
#include <weir/any_limiter.hpp>
#include <weir/policy/fed.hpp>
#include <weir/time.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace proxy {

/// How long each may take.
struct timeouts {
    weir::duration header = std::chrono::seconds(10);  // of a request, from its first byte
    weir::duration body =
        std::chrono::seconds(30);  // the next piece of a body, to or from a client
    weir::duration idle = std::chrono::seconds(75);      // until a client begins another request
    weir::duration upstream = std::chrono::seconds(60);  // to connect, to answer, to go on
    weir::duration keep = std::chrono::seconds(5);       // a connection to it that is not used
};

struct options {
    std::string listen = "127.0.0.1:8080";
    std::string upstream;
    bool demo = false;
    std::string help;  // what --help prints; nothing else counts then

    std::optional<weir::amount> seats;  // the most, of adaptive ones
    std::optional<weir::adaptive_options> adaptive_seats;
    std::optional<weir::limiter_config> rate;
    std::optional<weir::amount> per_client_seats;
    std::optional<weir::limiter_config> per_client_rate;
    std::int64_t max_clients = 100'000;  // with limits of their own
    struct {
        int v4 = 32;
        int v6 = 64;
    } client_prefix;  // clients with so many bits of the address in common are one

    std::string engine;  // what keeps the rate of all proxies of this name; empty: each has its own
    std::string name = "weir-proxy";
    // Of the rate that is shared; `log` if it is one.
    struct {
        weir::shared_options options;
        bool log = false;
    } shared;

    std::int64_t queue = 1024;
    weir::duration patience = std::chrono::seconds(1);

    bool abort_on_hang_up = false;

    std::optional<std::int64_t> connections;
    std::int64_t threads = 0;  // 0: one for each processor
    weir::duration drain = std::chrono::seconds(10);
    std::string access_log;  // a file, `-` for standard output; empty for none

    bool pass_underscores = false;

    timeouts limits;
};

/// What is wrong with the command line, in one line.
class usage_error : public std::runtime_error {
    using runtime_error::runtime_error;
};

/// Throws `usage_error`.
[[nodiscard]] options parse_options(int argc, char const* const* argv);

}  // namespace proxy
