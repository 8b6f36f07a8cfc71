#pragma once

#include "access_log.hpp"
#include "gate.hpp"
#include "http/body.hpp"
#include "http/buffer.hpp"
#include "http/head.hpp"
#include "net/asio.hpp"
#include "net/watchdog.hpp"
#include "options.hpp"
#include "pool.hpp"
#include "upstream.hpp"

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace proxy {

namespace asio = boost::asio;

/// What a request needs while it is being served. An idle connection has none of it.
struct exchange {
    http::buffer in;    // from the client
    http::buffer back;  // from the upstream
    std::string out;    // the head that is being sent
    http::request_head request;
    http::answer_head answer;

    http::body_reader body{http::framing::none, 0};  // of the request
    http::body_reader::piece first;  // what of it has come with the head, behind which it lies

    // For the log.
    std::string request_line;
    unsigned status = 0;
    std::uint64_t bytes = 0;
    net::clock::duration waited{};
};

/// Counted by one thread, read by any.
class counter {
public:
    void operator++() noexcept { add(1); }
    void operator--() noexcept { add(~std::uint64_t(0)); }
    [[nodiscard]] std::uint64_t value() const noexcept {
        return value_.load(std::memory_order_relaxed);
    }

private:
    void add(std::uint64_t n) noexcept { value_.store(value() + n, std::memory_order_relaxed); }
    std::atomic<std::uint64_t> value_ = 0;
};

struct counters {
    counter connections;
    counter open;
    counter requests;
    counter answered;     // with what the upstream has said
    counter malformed;    // 4xx and 5xx for what was no proper request
    counter turned_away;  // 429 and 503
    counter hung_up;      // by the client, before the answer was complete
    counter failed;       // 502 and 504, and answers that broke off
};

/// One thread of the proxy, and what its connections share.
class worker {
public:
    worker(options const& o, upstream_address const& address)
        : settings(o), upstream(context, dog, address, o.upstream_timeout) {}

    /// The time for a Date field.
    [[nodiscard]] std::string_view date();

    options const& settings;
    asio::io_context context{1};
    net::watchdog dog{context};
    pool<exchange, 256> exchanges;
    upstream_pool upstream;
    counters counts;
    gate* entrance = nullptr;
    access_log* log = nullptr;
    bool draining = false;

private:
    std::int64_t date_of_ = 0;
    std::string date_;
};

}  // namespace proxy
