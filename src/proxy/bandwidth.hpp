#pragma once

#include <weir/amount.hpp>
#include <weir/key_hash.hpp>
#include <weir/permit.hpp>
#include <weir/time.hpp>

#include "config/configuration.hpp"
#include "limit.hpp"
#include "limiting/selection.hpp"
#include "net/asio.hpp"
#include "request_info.hpp"
#include "turn.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// The limits of bytes. A transfer takes permits before it passes bytes on, one for each byte.
namespace proxy {

/// A limit of the bytes in one direction, shared by all threads and by all transfers of the routes that name it. Any
/// thread may use it, except for the members that configure.
class byte_limit {
public:
    /// Limits the direction `d` of `c`. `ex` serves waiting transfers, as for `make_limit`.
    byte_limit(net::executor const& ex, config::limit const& c, config::direction d);
    byte_limit(byte_limit const&) = delete;

    // ---- For the thread that configures

    /// Whether a limit of that configuration can replace this one in place. The rates do not matter.
    [[nodiscard]] bool can_become(config::limit const& c) const;
    /// Applies another configuration. Running transfers continue at the new rate. Precondition: `can_become(c)`.
    void configure(config::limit const& c);
    /// No configuration has the limit any more: its transfers continue without it.
    void free() noexcept { limiter_->close(); }

    /// The limiter, which grants one permit for each byte.
    [[nodiscard]] std::shared_ptr<limit> const& limiter() const noexcept { return limiter_; }
    [[nodiscard]] std::shared_ptr<limit::selection_type const> selection() const {
        return limiter_->selection();
    }
    /// The rate of keys without an override; empty: they are unlimited.
    [[nodiscard]] std::optional<config::byte_rate> const& rate() const noexcept { return rate_; }
    /// The rates of the overrides, in their order.
    [[nodiscard]] std::vector<std::optional<config::byte_rate>> overrides() const;

    // ---- For transfers

    /// Whether it only counts.
    [[nodiscard]] bool is_dry() const noexcept { return is_dry_.load(std::memory_order_relaxed); }
    /// The rate of the keys without an override, or 1 B/s.
    [[nodiscard]] config::byte_rate usual_rate() const noexcept {
        return {per_second_.load(std::memory_order_relaxed),
                burst_.load(std::memory_order_relaxed)};
    }
    /// The most bytes that a transfer may take at once of a key with this rate: see `limiting::portion_of`.
    [[nodiscard]] weir::amount portion(std::uint64_t key,
                                       config::byte_rate const& r) const noexcept;
    /// A transfer wants bytes of a key from now on; it does no longer.
    void want(std::uint64_t key) noexcept { wanting(key).fetch_add(1, std::memory_order_relaxed); }
    void want_no_more(std::uint64_t key) noexcept {
        wanting(key).fetch_sub(1, std::memory_order_relaxed);
    }

    /// Counts bytes that passed.
    void pass(std::size_t n) noexcept { passed_.fetch_add(n, std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t passed() const noexcept {
        return passed_.load(std::memory_order_relaxed);
    }
    /// Counts `n` bytes that passed in a dry run. Those for which the rate had no permits are late.
    void pass_dry(limiting::selected const& at, weir::amount n,
                  config::byte_rate const& r) noexcept;
    [[nodiscard]] std::uint64_t late() const noexcept {
        return late_.load(std::memory_order_relaxed);
    }

private:
    using counter = std::atomic<std::uint32_t>;
    // Keys with one counter make each other's portions smaller, but not less fair.
    [[nodiscard]] std::size_t index_of(std::uint64_t key) const noexcept {
        return weir::key_hash()(seed_, key) % wanting_.size();
    }
    [[nodiscard]] counter& wanting(std::uint64_t key) noexcept { return wanting_[index_of(key)]; }

    weir::hash_seed const seed_ = weir::hash_seed::random();
    config::direction const direction_;
    std::optional<config::byte_rate> rate_;
    std::shared_ptr<limit> const limiter_;
    std::atomic<weir::amount> per_second_;  // of `usual_rate`
    std::atomic<weir::amount> burst_;
    std::atomic<bool> is_dry_;
    std::array<counter, 256> wanting_{};
    std::atomic<std::uint64_t> passed_ = 0;
    std::atomic<std::uint64_t> late_ = 0;
};

/// The limits of bytes that a route or a listener names in one direction. Any thread may use it.
class byte_limits {
public:
    void add(std::shared_ptr<byte_limit> l);
    [[nodiscard]] bool empty() const noexcept { return all_.empty(); }

private:
    friend class transfer;
    struct one {
        std::shared_ptr<byte_limit> limit;
        std::shared_ptr<limit::selection_type const> selection;
        std::vector<std::optional<config::byte_rate>> overrides;
    };
    std::vector<one> all_;
};

/// The transfer of the bytes of one request in one direction. Use it on one thread; one call of `take` at a time.
///
/// A transfer takes permits of each limit in turn, so the lowest rate prevails. It holds no permit between `settle` and
/// `take`: an idle connection holds none.
class transfer {
public:
    /// The limits of a transfer, which must outlive it.
    struct limits {
        byte_limits const& of_route;
        byte_limits const* of_listener = nullptr;  // null: none. A limit of both limits once.
        std::unique_ptr<byte_limit> own = {};      // null, or of this transfer alone
    };
    /// Null without a limit.
    [[nodiscard]] static std::unique_ptr<transfer> start(limits by, request_info const& who);

    transfer(limits by, request_info const& who);
    transfer(transfer const&) = delete;
    ~transfer();

    /// Waits until at least one of the next `most` bytes may pass, and returns the number of bytes that may: 0 if `most`
    /// is 0, or if `stop` ended the wait. Call `settle` before the next call.
    [[nodiscard]] net::task<std::size_t> take(std::size_t most);
    /// As `take`, but does not wait: returns 0 if it would have to.
    [[nodiscard]] std::size_t take_at_once(std::size_t most);
    /// `n` of these bytes passed. The others may pass later, with other permits.
    void settle(std::size_t n) noexcept;
    /// Ends a wait.
    void stop() noexcept;
    /// Whether it waits for permits.
    [[nodiscard]] bool waits() const noexcept { return waits_; }
    /// The sum of its waits that have ended.
    [[nodiscard]] net::clock::duration waited() const noexcept { return waited_; }

private:
    struct share {
        byte_limit* of;
        limiting::selected at;
        std::optional<config::byte_rate> own_rate = {};  // of an override
        weir::permit permit = {};

        // Otherwise it only counts.
        [[nodiscard]] bool delays() const noexcept { return !at.is_unlimited && !of->is_dry(); }
        // The rate of the limit may change.
        [[nodiscard]] config::byte_rate rate() const noexcept {
            return own_rate ? *own_rate : of->usual_rate();
        }
        [[nodiscard]] weir::amount portion() const noexcept { return of->portion(at.key, rate()); }
    };
    [[nodiscard]] weir::amount want(std::size_t most) noexcept;
    [[nodiscard]] bool ask(share& s, weir::amount n, net::error_code& ec);
    [[nodiscard]] static bool stands(share const& s, net::error_code ec, weir::amount& n);
    net::task<bool> take_of(share& s, weir::amount& n);
    net::task<> wait(share const& s);

    void add(byte_limits const& those, request_info const& who, bool keyed);

    std::unique_ptr<byte_limit> const own_;
    std::vector<share> shares_;
    std::shared_ptr<turn<weir::permit>> turn_;  // of the waits, one after the other
    bool wants_ = false;
    bool waits_ = false;
    bool stopped_ = false;
    net::clock::duration waited_{};
};

/// The waits of both directions; empty if neither has a limit.
[[nodiscard]] std::optional<net::clock::duration> waited_of(transfer const* up,
                                                            transfer const* down) noexcept;

}  // namespace proxy
