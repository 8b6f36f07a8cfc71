#pragma once

#include "limiting/path_names.hpp"
#include "logs/entry.hpp"
#include "names.hpp"
#include "tool/network.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace replay {

/// A part of a key.
struct key_part {
    logs::key_source source;
    std::optional<std::int64_t>
        segment;                 // number of a segment of the target's path; 0: the whole path
    std::string parameter = {};  // name of a parameter in the target's query
    std::vector<key_part> otherwise = {};  // the first one with a value replaces a missing value

    friend bool operator==(key_part const&, key_part const&) = default;
};

/// The parts of a request that select a limiter, or, if `is_priority`, the class of the request in a queue.
struct key {
    std::vector<key_part> parts{key_part{}};
    int v4_prefix = 32;  // IPv4 clients that share this many first bits count as one
    int v6_prefix = 64;
    bool is_priority = false;

    friend bool operator==(key const&, key const&) = default;
};

/// Returns `client`, `header X-Api-Key`, `path 1`, `path`, `field NAME`, or several of these, separated by commas or, if
/// one replaces another, by `or`.
[[nodiscard]] std::string to_string(key const& k);

/// Numbers the keys of requests, in the order of their first appearance.
class key_numbers {
public:
    /// `sources` lists the values to read from each line. The constructor adds the values that `k` needs.
    key_numbers(key k, std::vector<logs::key_source>& sources);

    /// Returns the number of the key of a line.
    [[nodiscard]] std::uint32_t of(logs::entry const& e) {
        if (single_) [[likely]]
            return of(e.keys[slots_.front()]);
        return of_parts(e);
    }
    /// Returns the number of a key of one part, as a configuration or a line contains it.
    [[nodiscard]] std::uint32_t of(std::string_view text) {
        if (by_network_)
            return clients_.number_of(text);
        return ends_in_client(key_.parts.front()) ? names_.number_of("value " + std::string(text))
                                                  : names_.number_of(text);
    }
    /// Returns the number of the key of a client that replaces a missing value.
    [[nodiscard]] std::uint32_t of_client(std::string_view address) {
        return by_network_ ? of(address) : names_.number_of(text_of_client(address));
    }
    /// The client of a key number, if the key is a client with an address.
    [[nodiscard]] std::optional<tool::network> client_of(std::uint32_t number) const;

    /// Returns the key of a number, as a report shows it.
    [[nodiscard]] std::string text_of(std::uint32_t number) const;
    /// Returns the value of each part of the key of a number, as the names of nodes of a tree of rates: an empty text
    /// without a value, and the first address of its network for a client. Precondition: no part has a client as an
    /// alternative.
    [[nodiscard]] limiting::path_names names_of(std::uint32_t number) const;

    [[nodiscard]] key const& what() const noexcept { return key_; }
    [[nodiscard]] names const& all() const noexcept {
        return by_network_ ? clients_.all() : names_;
    }

private:
    [[nodiscard]] std::uint32_t of_parts(logs::entry const& e);
    [[nodiscard]] std::vector<std::string_view> values_of(std::uint32_t number) const;
    void append(key_part const& part, std::string_view found);
    // A part that may be a value or a client is `value X` or `client X`.
    [[nodiscard]] static bool ends_in_client(key_part const& part) {
        return !part.otherwise.empty() && part.otherwise.back() == key_part();
    }
    [[nodiscard]] std::string text_of_client(std::string_view address) {
        return "client " + clients_.all()[clients_.number_of(address)];
    }

    key key_;
    std::vector<std::size_t> slots_;  // index of each part, and of its alternatives, in the sources
    bool by_network_;                 // the key is the client alone
    bool single_;                     // the key is one unchanged value of a line
    clients clients_;
    // Each of several parts follows its length, so that different lists of parts are different keys.
    names names_;
    std::string text_;
};

/// Returns the index of `wanted` in `sources`, to which it is added if necessary.
[[nodiscard]] std::size_t place_of(logs::key_source const& wanted,
                                   std::vector<logs::key_source>& sources);

/// Returns the normalized path (`http::normal_path`) of a target, without `http://host`.
[[nodiscard]] std::string path_of(std::string_view target);
/// Returns the host of a target such as `http://host/path`; empty if it has none.
[[nodiscard]] std::string_view host_of(std::string_view target) noexcept;

}  // namespace replay
