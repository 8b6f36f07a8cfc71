#pragma once

#include <atomic>
#include <cstdint>

namespace proxy {

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
    counter tunnels;  // of these, that have gone over to another protocol
    counter requests;
    counter answered;     // with what the upstream has said
    counter malformed;    // 4xx and 5xx for what was no proper request
    counter turned_away;  // 429 and 503
    counter hung_up;      // by the client, before the answer was complete
    counter routed;       // answered by a route itself, or without any route
    counter failed;       // 502 and 504, and answers that broke off
};

}  // namespace proxy
