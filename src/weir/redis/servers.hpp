#pragma once

#include "address.hpp"
#include "tls.hpp"

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weir::inline v0_2::redis::detail {

/// The servers of a store, or the Sentinels that know its primary. Any thread may call any member at any time.
class servers {
public:
    /// Throws `std::invalid_argument` if a file of the options of TLS cannot be used.
    explicit servers(destination const& to)
        : primary_name_(to.primary_name), primary_login_(to.primary) {
        for (auto const& one : to.servers)
            all_.push_back(std::make_shared<address const>(one));
        if (to.tls)
            tls_.emplace(*to.tls);
    }

    /// Returns the number of addresses in the URL.
    [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }
    /// Returns the encryption of all connections; null: none.
    [[nodiscard]] tls_context const* tls() const noexcept { return tls_ ? &*tls_ : nullptr; }
    /// Returns the name of the primary that Sentinels know; empty: there are no Sentinels.
    [[nodiscard]] std::string const& primary_name() const noexcept { return primary_name_; }

    /// Returns the current address of the URL: a server, or a Sentinel.
    [[nodiscard]] std::shared_ptr<address const> current() const {
        std::lock_guard lock(mutex_);
        return all_[at_];
    }
    /// Replaces the current address by the next one, after the last by the first.
    void move_on() noexcept {
        std::lock_guard lock(mutex_);
        at_ = (at_ + 1) % all_.size();
    }

    /// Returns the server that executes scripts; null: no Sentinel has told it yet.
    [[nodiscard]] std::shared_ptr<address const> primary() const {
        if (primary_name_.empty())
            return current();
        std::lock_guard lock(mutex_);
        return primary_;
    }
    /// Records the address of the primary.
    void found_primary(std::string host, std::uint16_t port) {
        auto made = primary_login_;
        made.host = std::move(host);
        made.port = port;
        auto found = std::make_shared<address const>(std::move(made));
        std::lock_guard lock(mutex_);
        primary_ = std::move(found);
    }

private:
    std::string primary_name_;
    address primary_login_;
    std::vector<std::shared_ptr<address const>> all_;
    std::optional<tls_context> tls_;

    std::mutex mutable mutex_;
    std::size_t at_ = 0;
    std::shared_ptr<address const> primary_;
};

}  // namespace weir::inline v0_2::redis::detail
