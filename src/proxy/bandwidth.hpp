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
#include <string>
#include <vector>

// The limits of bytes. A transfer takes permits before it passes bytes on, one for each byte.
namespace proxy {

/// A limit of the bytes in one direction, shared by all threads and by all transfers of the routes that name it. Any
/// thread may use it, except for the members that configure.
class byte_limit {
public:
    /// The rate is `r`; `c` has the name and the key. `ex` serves waiting transfers, as for `make_limit`.
    byte_limit(net::executor const& ex, config::limit const& c, config::byte_rate const& r);
    byte_limit(byte_limit const&) = delete;

    // ---- For the thread that configures

    /// Whether a limit of that configuration can replace this one in place. The rate does not matter.
    [[nodiscard]] bool can_become(config::limit const& c) const;
    /// Applies another configuration. Running transfers continue at the new rate. Precondition: `can_become(c)`.
    void configure(config::limit const& c, config::byte_rate const& r);
    /// No configuration has the limit any more: its transfers continue without it.
    void free() noexcept { limiter_->close(); }

    /// The limiter, which grants one permit for each byte.
    [[nodiscard]] std::shared_ptr<limit> const& limiter() const noexcept { return limiter_; }
    [[nodiscard]] std::shared_ptr<limit::selection_type const> selection() const {
        return limiter_->selection();
    }
    [[nodiscard]] config::byte_rate const& rate() const noexcept { return rate_; }

    // ---- For transfers

    /// The most bytes that a transfer may take at once: as many as the rate allows in 20 ms, divided by the transfers
    /// that want bytes of this key now, from 1,460 to 65,536, and at most the burst. So all transfers of a key get the
    /// same, whatever each of them has to send.
    [[nodiscard]] weir::amount quantum(std::uint64_t key) const noexcept;
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

private:
    using counter = std::atomic<std::uint32_t>;
    // Keys with one counter make each other's portions smaller, but not less fair.
    [[nodiscard]] std::size_t index_of(std::uint64_t key) const noexcept {
        return weir::key_hash()(seed_, key) % wanting_.size();
    }
    [[nodiscard]] counter& wanting(std::uint64_t key) noexcept { return wanting_[index_of(key)]; }

    weir::hash_seed const seed_ = weir::hash_seed::random();
    config::byte_rate rate_;
    std::shared_ptr<limit> const limiter_;
    std::atomic<weir::amount> per_turn_;  // the bytes of 20 ms
    std::atomic<weir::amount> burst_;
    std::array<counter, 256> wanting_{};
    std::atomic<std::uint64_t> passed_ = 0;
};

/// The limits of bytes that a route names in one direction. Any thread may use it.
class byte_limits {
public:
    void add(std::shared_ptr<byte_limit> l);
    [[nodiscard]] bool empty() const noexcept { return all_.empty(); }

private:
    friend class transfer;
    struct one {
        std::shared_ptr<byte_limit> limit;
        std::shared_ptr<limit::selection_type const> selection;
    };
    // Limits by key come first: a transfer holds their permits while it waits for the others, which more transfers share.
    std::vector<one> all_;
};

/// The transfer of the bytes of one request in one direction. Use it on one thread; one call of `take` at a time.
///
/// A transfer takes permits of each limit in turn, so the lowest rate prevails. It holds no permit between `settle` and
/// `take`: an idle connection holds none.
class transfer {
public:
    /// `own`, if it is not null, limits this transfer alone. `by` and the request of `who` must outlive it. Null without
    /// a limit.
    [[nodiscard]] static std::unique_ptr<transfer> start(
        byte_limits const& by, request_info const& who, std::unique_ptr<byte_limit> own = {});

    transfer(byte_limits const& by, request_info const& who, std::unique_ptr<byte_limit> own);
    transfer(transfer const&) = delete;
    ~transfer();

    /// Waits until at least one of the next `most` bytes may pass, and returns the number of bytes that may: 0 if `most`
    /// is 0, or if `stop` ended the wait. Call `settle` before the next call.
    [[nodiscard]] net::task<std::size_t> take(std::size_t most);
    /// `n` of these bytes passed. The others may pass later, with other permits.
    void settle(std::size_t n) noexcept;
    /// Ends a wait.
    void stop() noexcept;
    /// Whether it waits for permits.
    [[nodiscard]] bool waits() const noexcept { return waits_; }

private:
    struct share {
        byte_limit* of;
        limiting::selected at;
        weir::permit permit = {};
    };
    net::task<bool> take_of(share& s, weir::amount& n);
    net::task<> wait(share const& s);

    request_info const who_;
    std::unique_ptr<byte_limit> const own_;
    std::vector<share> shares_;
    std::shared_ptr<turn<weir::permit>> turn_;  // of the waits, one after the other
    bool wants_ = false;
    bool waits_ = false;
    bool stopped_ = false;
};

}  // namespace proxy
