#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::inline v0_2::redis::detail {

/// The address of a server, with the login and the database.
struct address {
    std::string path;  // of a local socket; otherwise host and port are set
    std::string host;
    std::uint16_t port = 6379;
    std::string user;
    std::string password;
    std::uint32_t database = 0;

    /// Returns the addresses of a URL, at least one: see `options::url`. Throws `std::invalid_argument`. Its text does
    /// not quote the URL, which may contain a password.
    static std::vector<address> parse(std::string_view url);
};

/// The servers of a store, one of which is in use. Any thread may call any member at any time.
class servers {
public:
    explicit servers(std::vector<address> all) noexcept : all_(std::move(all)) {}

    [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }
    [[nodiscard]] address const& current() const noexcept {
        return all_[at_.load(std::memory_order_relaxed)];
    }
    /// Replaces the current server by the next one, after the last by the first. One thread at a time.
    void move_on() noexcept {
        auto const next = at_.load(std::memory_order_relaxed) + 1;
        at_.store(next == all_.size() ? 0 : next, std::memory_order_relaxed);
    }

private:
    std::vector<address> all_;
    std::atomic<std::size_t> at_ = 0;
};

}  // namespace weir::inline v0_2::redis::detail
