#pragma once

#include <weir/amount.hpp>
#include <weir/postgres/store.hpp>
#include <weir/time.hpp>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::inline v0_2::postgres::detail {

/// An address of a server, as libpq takes it.
struct target {
    std::string host;     // a name, a socket's folder, or empty
    std::string address;  // the address of the name; empty: `host` is used
    std::string port;

    /// Returns whether the host is a name that must be resolved.
    [[nodiscard]] bool is_name() const;
    /// Returns whether the server is on this machine.
    [[nodiscard]] bool is_local() const;
    /// Returns the address for messages: `db:5432`.
    [[nodiscard]] std::string text() const;
};

/// The settings of sessions.
class settings {
public:
    using parameters = std::vector<std::pair<std::string, std::string>>;

    /// Throws `std::invalid_argument` if an option is invalid.
    explicit settings(options o);

    [[nodiscard]] amount max_connections() const noexcept { return given_.max_connections; }
    [[nodiscard]] duration connect_timeout() const noexcept { return given_.connect_timeout; }
    [[nodiscard]] backoff_options const& retry() const noexcept { return given_.retry; }
    [[nodiscard]] bool is_durable() const noexcept { return given_.durable; }
    /// Returns the time limit of a connection attempt that starts now.
    [[nodiscard]] std::chrono::steady_clock::time_point connect_until() const;

    /// Returns the hosts, in order.
    [[nodiscard]] std::vector<target> const& targets() const noexcept { return targets_; }
    /// Returns the parameters of libpq for a connection to `to`.
    [[nodiscard]] parameters parameters_of(target const& to) const;

private:
    [[nodiscard]] std::string value_of(std::string_view keyword) const;
    void set_default(parameters& all, std::string_view keyword, std::string_view variable,
                     std::string value) const;

    options given_;
    parameters parsed_;
    std::vector<target> targets_;
};

}  // namespace weir::inline v0_2::postgres::detail
