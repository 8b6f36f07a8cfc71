#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace replay {

/// Numbers texts from 0, in the order in which they come first.
class names {
public:
    [[nodiscard]] std::uint32_t number_of(std::string_view text);

    /// The same, and whether it has come for the first time.
    struct place {
        std::uint32_t number;
        bool is_new;
    };
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

    std::vector<slot> slots_;  // a power of two
    std::deque<std::string> texts_;
};

/// Clients by their address, as weir-proxy tells them apart: those of one network are one. What is no address is a
/// client by its text.
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
    std::vector<std::uint32_t> client_of_;  // a text
    names clients_;
};

}  // namespace replay
