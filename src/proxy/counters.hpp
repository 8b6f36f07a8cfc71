#pragma once

#include <array>
#include <atomic>
#include <cstddef>
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

/// Counts something for as long as it lives.
class counted {
public:
    explicit counted(counter& c) noexcept : in_(c) { ++in_; }
    counted(counted const&) = delete;
    ~counted() { --in_; }

private:
    counter& in_;
};

/// What has become of a request: each ends in one of these ways.
enum class ending : std::uint8_t {
    answered,     // with what the upstream has said
    routed,       // by a route itself, or without any route
    turned_away,  // 429 and 503
    hung_up,      // by the client, before the answer was complete
    failed,       // 502 and 504, and answers that broke off
    malformed,    // 4xx and 5xx for what was no proper request
};
inline constexpr std::size_t endings = 6;

struct counters {
    counter connections;
    counter open;
    counter tunnels;   // of these, that have gone over to another protocol
    counter requests;  // but malformed ones
    std::array<counter, endings> ended;

    [[nodiscard]] counter& operator[](ending how) noexcept {
        return ended[static_cast<std::size_t>(how)];
    }
    [[nodiscard]] counter const& operator[](ending how) const noexcept {
        return ended[static_cast<std::size_t>(how)];
    }
};

}  // namespace proxy
