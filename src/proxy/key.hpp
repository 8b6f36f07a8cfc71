#pragma once

#include <weir/amount.hpp>
#include <weir/key_hash.hpp>

#include "config/configuration.hpp"
#include "limiting/path_names.hpp"
#include "request_info.hpp"
#include "tool/network_map.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace proxy {

/// Computes the key of a request for a limit, as a number. If the key is the client alone, the number is its
/// `weir::client_key`. Any other key is hashed; for limits with a random seed of this process, so that clients cannot
/// construct collisions.
class keys_of_requests {
public:
    explicit keys_of_requests(config::limit const& c);
    /// Keys that are the same in all processes. Each IPv4 address and each IPv6 network of 64 bits is a client.
    explicit keys_of_requests(std::vector<config::key_part> parts);

    [[nodiscard]] std::uint64_t of(request_info const& who) const;
    /// Returns the key as text, the same in all processes: the first address of the network of a client, or the value of
    /// the key's only part. A key with several parts, or with the client as an alternative, contains binary lengths.
    [[nodiscard]] std::string text_of(request_info const& who) const;
    /// Returns the value of each part of the key, for a tree of rates: an empty text without one, the first address of
    /// its network for a client, and a hash for a value that is longer than `config::limit::longest_name`.
    [[nodiscard]] limiting::path_names names_of(request_info const& who) const;
    /// Returns the key of a text in the configuration: a client, or the value of the key's only part.
    [[nodiscard]] std::uint64_t of(std::string const& text) const;
    /// The address of the client, mapped if it is IPv4, if the client alone is the key of the request.
    [[nodiscard]] std::optional<std::array<std::uint8_t, 16>> client_of(
        request_info const& who) const;

private:
    [[nodiscard]] std::uint64_t client(boost::asio::ip::address const& address) const;
    template <class Text>
    void add_parts(Text& text, request_info const& who) const;

    keys_of_requests(std::vector<config::key_part> parts, int v4_prefix, int v6_prefix,
                     weir::hash_seed const& seed);

    std::vector<config::key_part> parts_;
    weir::hash_seed seed_;
    bool is_client_;   // the client alone
    bool has_client_;  // the only part has the client as an alternative
    int v4_prefix_;
    int v6_prefix_;
};

/// The seed of the hashes of keys, random unless it was set.
[[nodiscard]] weir::hash_seed key_seed();
/// Sets the seed of the keys of limits that are made from now on, so that saved keys are found again.
void set_key_seed(weir::hash_seed const& seed);

/// Whether a request has a value of each part. A client is a value.
[[nodiscard]] bool has_values(std::span<config::key_part const> parts, request_info const& who);

/// Reports a request that has a value of the parts more than once, since the upstream may use another one than the limits,
/// and a request without a value if its part ends in `reject`.
[[nodiscard]] http::fault fault_of_keys(std::span<config::key_part const> parts,
                                        request_info const& who);

/// Computes the `weir::standing` of a request, by which the order of a limit's queue selects the next request.
class place_in_queue {
public:
    explicit place_in_queue(config::limit const& c);

    /// `cost` is the number of permits.
    [[nodiscard]] weir::request of(request_info const& who, weir::amount cost) const {
        return fair_ || priority_ ? standing_of(who, cost) : weir::request(cost);
    }

private:
    [[nodiscard]] weir::request standing_of(request_info const& who, weir::amount cost) const;

    bool fair_;  // the order is `fair`: clients take turns
    std::optional<std::string> priority_;
    tool::network_map<int> weights_;
    int v4_prefix_;
    int v6_prefix_;
};

}  // namespace proxy
