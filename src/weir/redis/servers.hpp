#pragma once

#include "address.hpp"
#include "tls.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace weir::inline v0_2::redis::detail {

/// The servers of a store, or the Sentinels that know its primary, and the nodes of a cluster. Any thread may call any
/// member at any time.
class servers {
public:
    /// Throws `std::invalid_argument` if a file of the options of TLS cannot be used.
    explicit servers(destination const& to)
        : primary_name_(to.primary_name), primary_login_(to.primary), of_url_(to.servers.size()) {
        for (auto const& one : to.servers)
            all_.push_back(std::make_shared<address const>(one));
        if (to.tls)
            tls_ = std::make_shared<tls_context const>(*to.tls);
    }
    /// One server, such as a node of a cluster, and the encryption; null: none.
    servers(address const& only, std::shared_ptr<tls_context const> tls)
        : all_{std::make_shared<address const>(only)}, of_url_(1), tls_(std::move(tls)) {}

    /// Returns the encryption of all connections; null: none.
    [[nodiscard]] tls_context const* tls() const noexcept { return tls_.get(); }
    [[nodiscard]] std::shared_ptr<tls_context const> const& shared_tls() const noexcept {
        return tls_;
    }
    /// Returns the name of the primary that Sentinels know; empty: there are no Sentinels.
    [[nodiscard]] std::string const& primary_name() const noexcept { return primary_name_; }

    /// Returns the number of addresses, of the URL and learned.
    [[nodiscard]] std::size_t size() const noexcept {
        std::lock_guard lock(mutex_);
        return all_.size();
    }
    /// Adds the address of a node of the cluster behind the addresses of the URL. The latest ones are kept, so that a
    /// cluster that changes its addresses does not leave many dead ones behind. Sentinels get no nodes.
    void learn(address const& node) {
        if (!primary_name_.empty())
            return;
        auto made = std::make_shared<address const>(node);
        auto const place = node.to_string();
        auto const is_it = [&](auto const& one) { return one->to_string() == place; };
        std::lock_guard lock(mutex_);
        all_.reserve(all_.size() + 1);
        auto const used = all_[at_];
        auto const learned = all_.begin() + static_cast<std::ptrdiff_t>(of_url_);
        if (std::any_of(all_.begin(), learned, is_it))
            return;
        if (auto const known = std::find_if(learned, all_.end(), is_it); known != all_.end())
            std::rotate(learned, known, known + 1);
        else
            all_.insert(learned, std::move(made));
        if (all_.size() > of_url_ + most_learned)
            all_.pop_back();
        auto const found = std::ranges::find(all_, used);
        at_ = found == all_.end() ? 0 : static_cast<std::size_t>(found - all_.begin());
    }

    /// Returns the current address: a server, or a Sentinel.
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
    static constexpr std::size_t most_learned = 16;

    std::string primary_name_;
    address primary_login_;
    std::vector<std::shared_ptr<address const>> all_;
    std::size_t of_url_;  // the first ones
    std::shared_ptr<tls_context const> tls_;

    std::mutex mutable mutex_;
    std::size_t at_ = 0;
    std::shared_ptr<address const> primary_;
};

}  // namespace weir::inline v0_2::redis::detail
