#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace replay {

/// Numbers texts from 0, in the order of their first appearance.
class names {
public:
    /// Returns the number of a text.
    [[nodiscard]] std::uint32_t number_of(std::string_view text);

    /// The number of a text, and whether this is its first appearance.
    struct place {
        std::uint32_t number;
        bool is_new;
    };
    /// Returns the number of a text, and whether this is its first appearance.
    [[nodiscard]] place place_of(std::string_view text);

    [[nodiscard]] std::string const& operator[](std::uint32_t number) const {
        return texts_[number];
    }
    [[nodiscard]] std::uint32_t size() const noexcept {
        return static_cast<std::uint32_t>(texts_.size());
    }

private:
    struct slot {
        std::uint32_t hash = 0;
        std::uint32_t number = none;
    };
    static constexpr std::uint32_t none = ~std::uint32_t{0};

    void grow();

    std::vector<slot> slots_;  // its size is a power of two
    std::deque<std::string> texts_;
};

/// Numbers clients by their address, as weir-proxy does: the addresses of one network are one client. A text that is
/// not an address is a separate client.
class clients {
public:
    clients(int v4_prefix, int v6_prefix) : v4_prefix_(v4_prefix), v6_prefix_(v6_prefix) {}

    [[nodiscard]] std::uint32_t number_of(std::string_view text) {
        auto const [number, is_new] = texts_.place_of(text);
        if (is_new)
            client_of_.push_back(find(text));
        return client_of_[number];
    }
    [[nodiscard]] names const& all() const noexcept { return clients_; }

private:
    [[nodiscard]] std::uint32_t find(std::string_view text);

    int v4_prefix_;
    int v6_prefix_;
    names texts_;
    std::vector<std::uint32_t> client_of_;  // number of the client, by number of the text
    names clients_;
};

}  // namespace replay
