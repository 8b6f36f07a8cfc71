#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

namespace tls {

/// The keys of session tickets (RFC 5077, RFC 8446 4.6.1). A new key replaces the current one after `change`. Tickets of
/// the replaced key stay valid until the next change. So the key of a recorded connection soon does not exist any more.
/// Any thread may use it.
class ticket_keys {
public:
    using time_point = std::chrono::steady_clock::time_point;
    static constexpr std::chrono::hours change{12};
    static constexpr std::size_t name_size = 16;

    struct key {
        std::array<unsigned char, name_size> name;
        std::array<unsigned char, 32> encryption;
        std::array<unsigned char, 32> authentication;

        key() = default;
        key(key const&) = default;
        key& operator=(key const&) = default;
        ~key();  // clears the memory
    };

    /// Throws `std::runtime_error` if the system has no random numbers.
    explicit ticket_keys(time_point now);

    /// The key for a new ticket.
    [[nodiscard]] key current(time_point now);

    struct found_key {
        tls::ticket_keys::key key;
        bool is_current = true;  // otherwise the client should get a new ticket
    };
    /// The key of a ticket; empty if it is not valid any more.
    [[nodiscard]] std::optional<found_key> find(std::span<unsigned char const, name_size> name,
                                                time_point now);

private:
    void change_if_due(time_point now);

    std::mutex mutex_;
    // The following members are protected by `mutex_`.
    key current_;
    std::optional<key> previous_;
    time_point since_;  // when `current_` became the current key
};

}  // namespace tls
