#pragma once

#include <weir/amount.hpp>
#include <weir/policy/shared_bucket.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

// The messages between an agent and its clients. A frame is the length of the rest in 4 bytes, the kind in one byte,
// and the members of the message in the order of their declaration. Numbers are little-endian, times in microseconds,
// and a text has its length in 2 bytes before it.

namespace weir::inline v0_2::agent::detail {

/// The first message of a client.
struct hello {
    static constexpr std::uint32_t current_version = 1;
    std::uint32_t version = current_version;
};

/// A question of a client.
struct take {
    std::uint64_t id = 0;  // of the question, on its connection
    std::string name = {};
    policy::shared_bucket bucket = {};
    amount min = 1;
    amount max = 1;
    std::chrono::microseconds ahead = {};
    std::chrono::microseconds timeout = {};
};

/// Permits that a client did not use.
struct give_back {
    std::string name = {};
    policy::shared_bucket bucket = {};
    amount count = 0;
    std::int64_t since = 0;
};

/// The reply to a question.
struct answer {
    /// Whether the store decided, or how the question failed: as `failure_kind`.
    enum class result : std::uint8_t { decided, refused, no_reply, unsent, misconfigured };

    std::uint64_t id = 0;
    result what = result::decided;
    amount granted = 0;
    std::chrono::microseconds wait = {};
    std::int64_t since = 0;
    bool is_new = false;
    std::string text = {};
};

/// The last message of an agent that cannot serve the client.
struct goodbye {
    std::string text = {};
};

using message = std::variant<hello, take, give_back, answer, goodbye>;

/// The longest text in a message; `encode` cuts off the rest.
inline constexpr std::size_t longest_text = 1000;

/// Appends the frame of a message. If it throws `std::bad_alloc`, `to` is unchanged.
void encode(std::string& to, message const& m);

/// Finds the messages in the bytes of a peer.
class frame_reader {
public:
    /// Adds bytes of the peer.
    void add(std::string_view bytes);
    /// Removes and returns the next message; `nullopt` if it is incomplete, or `is_invalid`.
    [[nodiscard]] std::optional<message> next();
    /// Returns whether the next bytes are not a message. It remains so.
    [[nodiscard]] bool is_invalid() const noexcept { return is_invalid_; }

private:
    std::string bytes_;
    std::size_t read_ = 0;  // of these bytes
    bool is_invalid_ = false;
};

}  // namespace weir::inline v0_2::agent::detail
