#pragma once

#include "logs/entry.hpp"
#include "names.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace replay {

/// A part of what tells the requests of a limit apart.
struct key_part {
    logs::key_source source;
    std::optional<std::int64_t> segment;  // of the path of the target; 0: all of the path

    friend bool operator==(key_part const&, key_part const&) = default;
};

/// What tells the requests of a limit apart; or, of the queue of one, the class of a request.
struct key {
    std::vector<key_part> parts{key_part{}};
    int v4_prefix = 32;  // clients with so many bits of the address in common are one
    int v6_prefix = 64;
    bool is_priority = false;

    friend bool operator==(key const&, key const&) = default;
};

/// `client`, `header X-Api-Key`, `path 1`, `path`, `field NAME`, and several of them.
[[nodiscard]] std::string to_string(key const& k);

/// Numbers the keys of requests, in the order in which they come first.
class key_numbers {
public:
    /// `sources` is what is asked of each line; what is missing there is added.
    key_numbers(key k, std::vector<logs::key_source>& sources);

    [[nodiscard]] std::uint32_t of(logs::entry const& e) {
        if (single_) [[likely]]
            return of(e.keys[slots_.front()]);
        return of_parts(e);
    }
    /// Of a text that stands in a configuration, or in a line, if the key has one part.
    [[nodiscard]] std::uint32_t of(std::string_view text) {
        return by_network_ ? clients_.number_of(text) : names_.number_of(text);
    }

    [[nodiscard]] key const& what() const noexcept { return key_; }
    [[nodiscard]] names const& all() const noexcept {
        return by_network_ ? clients_.all() : names_;
    }

private:
    [[nodiscard]] std::uint32_t of_parts(logs::entry const& e);

    key key_;
    std::vector<std::size_t> slots_;  // of each part
    bool by_network_;                 // a client alone
    bool single_;                     // a part of a line, as it stands there
    clients clients_;
    names names_;
    std::string text_;
};

/// The place of `wanted` among them, where it is put if it is not there.
[[nodiscard]] std::size_t place_of(logs::key_source const& wanted,
                                   std::vector<logs::key_source>& sources);

/// The path of a target, as `http::normal_path` has it, and of what stands behind `http://host`.
[[nodiscard]] std::string path_of(std::string_view target);
/// The host in a target that has one.
[[nodiscard]] std::string_view host_of(std::string_view target) noexcept;

}  // namespace replay
