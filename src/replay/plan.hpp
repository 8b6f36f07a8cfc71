#pragma once

#include <weir/policy/limiter_config.hpp>
#include <weir/queue_options.hpp>

#include "config/configuration.hpp"
#include "keys.hpp"
#include "tool/arguments.hpp"
#include "tool/network_map.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace replay {

/// A limit for all requests together, or for each key.
struct rule {
    weir::limiter_config config;
    std::optional<key> per;

    /// Parses `20/1s burst 50 per client`, `3 seats`, `10/1s per header X-Api-Key`, `10/1s per path 1`, `5/1s per path`
    /// or `5/1s per field NAME`. Throws `tool::usage_error`.
    [[nodiscard]] static rule parse(std::string_view text);
};

[[nodiscard]] std::string to_string(rule const& r);

/// A limit of the bytes of all requests together, or for each key, in one direction.
struct byte_rule {
    config::byte_rate rate;
    config::direction direction;
    std::optional<key> per;

    /// Parses `10MB/s down` or `500kB/s burst 1MB up per client`. Returns nothing if the text is a rule of requests.
    /// Throws `tool::usage_error`.
    [[nodiscard]] static std::optional<byte_rule> parse(std::string_view text);
};

[[nodiscard]] std::string to_string(byte_rule const& r);
/// Parses the rule in the value of `option`. Throws `tool::usage_error`, which names the option and the value.
[[nodiscard]] rule rule_of(std::string const& option, std::string_view text);

/// A limit of a plan, with its keys.
struct planned_limit {
    config::limit what;
    std::optional<key> per;
    std::optional<key> fair;      // key by which its queue groups requests in the order `fair`
    std::optional<key> priority;  // header with the class of a request in its queue
    std::string text;
};

/// One direction of a limit of bytes of a plan, with its key.
struct planned_bandwidth {
    config::limit what;
    config::direction direction;
    std::optional<key> per;
    std::string text;

    [[nodiscard]] bool is_up() const noexcept { return direction == &config::bandwidth::up; }
};

/// The limits of a replay: either rules that apply to all requests, or the limits and routes of a configuration file.
struct plan {
    std::string name;
    std::vector<rule> rules;
    std::vector<byte_rule> byte_rules;
    weir::queue_options queue{.patience = config::limit::default_patience};
    std::uint64_t max_keys = 100'000;  // keys tracked for each rule; further keys share one limiter
    int v4_prefix = 32;                // IPv4 clients that share this many first bits count as one
    int v6_prefix = 64;

    /// The configuration file. If it is set, the plan ignores all members above except `name`.
    std::shared_ptr<config::configuration const> file;

    /// Sorts the rules into the order in which weir-proxy applies them: rules per key before rules for all requests,
    /// and within each group seats before rates.
    void sort();

    /// Adds the rule in the value of `option`, of requests or of bytes. Throws `tool::usage_error`.
    void add(std::string const& option, std::string_view text);

    /// Adds `r` and removes the rules that have the same key and are of the same kind (seats or rates).
    void replace(rule const& r);
    /// Adds `r` and removes the rules that have the same key and the same direction.
    void replace(byte_rule const& r);

    /// Applies a change from the value of `option`: `200/1s per client` or `1MB/s down`, or with a file `NAME: 200/1s`;
    /// `patience 3s`; `queue 100`. Throws `tool::usage_error`.
    void change(std::string const& option, std::string_view text);

    /// Returns the limits, in the order of the rules or of the file, whose limits on servers come last.
    [[nodiscard]] std::vector<planned_limit> limits() const;
    /// Returns the limits of bytes, in the order of the rules or of the file.
    [[nodiscard]] std::vector<planned_bandwidth> bandwidths() const;
    /// The only listener of requests, whose limits all requests meet; null if there are several.
    [[nodiscard]] config::listener const* only_listener() const;
    /// A route with the indices of its limits in `limits()` and in `bandwidths()`.
    struct route {
        config::route what;
        std::vector<std::size_t> limits;
        tool::network_set clients = {};  // of `what`
        std::vector<std::size_t> bandwidths = {};
    };
    /// Returns the routes. Without a file, one route takes all requests.
    [[nodiscard]] std::vector<route> routes() const;

private:
    template <class Planned>
    void set_prefixes(Planned& l) const;
};

/// Reads the plan of a configuration file. Throws `tool::usage_error` and `config::bad_configuration`.
[[nodiscard]] plan plan_of_file(std::string const& file);

/// The largest number of rules in a plan.
inline constexpr std::size_t most_rules = 8;

}  // namespace replay
