#pragma once

#include <weir/key_hash.hpp>
#include <weir/limiter.hpp>
#include <weir/permit.hpp>
#include <weir/policy/fed.hpp>
#include <weir/shared/store.hpp>
#include <weir/time.hpp>

#include "asking.hpp"
#include "config/configuration.hpp"
#include "key.hpp"
#include "limiting/limit.hpp"
#include "net/asio.hpp"
#include "net/connection.hpp"
#include "quota.hpp"
#include "turn.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace proxy {

class limit;

/// What the limits of a configuration are used with: requests of clients, and the clock.
struct world {
    using executor = net::executor;
    using timer = net::timer;
    using asking = proxy::asking;
    using keys = keys_of_requests;
    using place = place_in_queue;
    using hash = weir::key_hash;
    using limit = proxy::limit;
    template <class Permit>
    using handler = on_turn<Permit>;
    static constexpr std::uint32_t shards = 16;
};

/// What a request is told that is turned away by a limit.
struct limit_text {
    unsigned status;
    char const* limited;     // why: at once,
    char const* late;        // since its turn would come or has come too late,
    char const* queue_full;  // or since too many wait
};

/// A limit of the configuration, shared by all threads and all routes that name it.
class limit : public limiting::limit<world> {
public:
    explicit limit(config::limit const& c);

    /// Waits for its turn; ends sooner if the client ends the connection.
    [[nodiscard]] virtual net::task<verdict<weir::permit>> enter(
        asking const& who, std::uint64_t key, net::connection& client, weir::duration patience);

    /// How long a permit may take even if it is there.
    [[nodiscard]] virtual weir::duration round_trip() const { return {}; }
    /// What else is told of it in the report.
    [[nodiscard]] virtual std::string more() const { return {}; }
    /// Of a limit that a store keeps.
    [[nodiscard]] virtual std::optional<weir::shared_stats> store_stats() const { return {}; }

    void change_rule(weir::limiter_config const& rule) final;

    /// Any thread. A request has been turned away without a wait. The limiter itself cannot tell: to it, a request that goes
    /// on to wait was rejected, too.
    void note_rejection() noexcept { rejections_.fetch_add(1, std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t rejections() const noexcept {
        return rejections_.load(std::memory_order_relaxed);
    }
    /// Any thread; it does not change.
    [[nodiscard]] std::string const& name() const noexcept { return name_; }
    /// No other limit of this process has it.
    [[nodiscard]] std::uint64_t id() const noexcept { return id_; }

    /// What clients are told of the rule.
    [[nodiscard]] policy told() const { return told_.now(); }
    /// Of the keys with a rule of their own; null if there is none.
    using override_quotas = std::unordered_map<std::uint64_t, std::vector<quota>>;
    /// On the thread that configures.
    [[nodiscard]] std::shared_ptr<override_quotas const> overrides_told() const;

    [[nodiscard]] limit_text const& text() const noexcept { return text_; }
    [[nodiscard]] bool is_keyed() const noexcept { return is_keyed_; }
    [[nodiscard]] bool is_of_store() const noexcept { return is_of_store_; }

private:
    limit_text text_;
    told_rule told_;
    bool is_keyed_;
    bool is_of_store_;
    std::string const name_;
    std::uint64_t const id_;
    std::atomic<std::uint64_t> rejections_ = 0;
};

/// Those who wait are served on `ex`, which must run for as long as anybody may wait. `e` keeps it, if it is a limit that
/// a store keeps.
[[nodiscard]] std::shared_ptr<limit> make_limit(net::executor const& ex, config::limit const& c,
                                                std::shared_ptr<weir::store> const& e);

}  // namespace proxy
