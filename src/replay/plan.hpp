#pragma once

#include <weir/policy/limiter_config.hpp>
#include <weir/queue_options.hpp>

#include "config/configuration.hpp"
#include "keys.hpp"
#include "tool/arguments.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace replay {

/// A limit of all requests together, or of each key by itself.
struct rule {
    weir::limiter_config config;
    std::optional<key> per;

    /// `20/1s burst 50 per client`, `3 seats`, `10/1s per header X-Api-Key`, `10/1s per path 1`, `5/1s per path`,
    /// `5/1s per field NAME`. Throws `tool::usage_error`.
    [[nodiscard]] static rule parse(std::string_view text);
};

[[nodiscard]] std::string to_string(rule const& r);
/// The rule that `option` names. Throws `tool::usage_error` that says so.
[[nodiscard]] rule rule_of(std::string const& option, std::string_view text);

/// A limit as a gate has it.
struct planned_limit {
    config::limit what;
    std::optional<key> per;
    std::optional<key> fair;      // the clients that take turns in its queue
    std::optional<key> priority;  // the field with the class of a request in its queue
    std::string text;
};

/// The limits that requests pass: rules, all of which all requests pass, or those of a file.
struct plan {
    std::string name;
    std::vector<rule> rules;
    weir::queue_options queue{.patience = config::limit::default_patience};
    std::uint64_t max_keys = 100'000;  // of each rule; those that come later share one limiter
    int v4_prefix = 32;                // clients with so many bits of the address in common are one
    int v6_prefix = 64;

    /// If it is there, the rules and what stands below them say nothing.
    std::shared_ptr<config::configuration const> file;

    /// Puts the rules in the order in which weir-proxy asks them: those of a client before those of all, and of
    /// both the seats before the rates.
    void sort();

    /// Takes `r` in the place of those of the same kind and the same keys, if there are any.
    void replace(rule const& r);

    /// Changes it by `200/1s per client`, or, if it is a file, `NAME: 200/1s`; by `patience 3s`; by `queue 100`, as `option`
    /// says it. Throws `tool::usage_error`.
    void change(std::string const& option, std::string_view text);

    /// In the order of the file.
    [[nodiscard]] std::vector<planned_limit> limits() const;
    /// Each with the numbers of its limits. Without a file, all requests have the same.
    struct route {
        config::route what;
        std::vector<std::size_t> limits;
    };
    [[nodiscard]] std::vector<route> routes() const;
};

/// Of the configuration in a file. Throws `tool::usage_error` and `config::bad_configuration`.
[[nodiscard]] plan plan_of_file(std::string const& file);

/// The most rules that a plan may have.
inline constexpr std::size_t most_rules = 8;

}  // namespace replay
