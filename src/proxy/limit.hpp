#pragma once

#include <weir/amount.hpp>
#include <weir/key_hash.hpp>
#include <weir/limiter.hpp>
#include <weir/permit.hpp>
#include <weir/policy/shared_options.hpp>
#include <weir/time.hpp>

#include "arrivals.hpp"
#include "config/configuration.hpp"
#include "cost.hpp"
#include "key.hpp"
#include "limiting/limit.hpp"
#include "net/asio.hpp"
#include "net/connection.hpp"
#include "quota.hpp"
#include "request_info.hpp"
#include "turn.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace proxy {

class limit;

/// The types with which the proxy uses `limiting::limit`: requests of clients, and the real clock.
struct world {
    using executor = net::executor;
    using timer = net::timer;
    using request_info = proxy::request_info;
    using keys = keys_of_requests;
    using place = place_in_queue;
    using hash = weir::key_hash;
    using limit = proxy::limit;
    static weir::amount cost_of(config::cost const& c, request_info const& who) {
        return proxy::cost_of(c, who);
    }
    template <class Permit>
    using handler = on_turn<Permit>;
    static constexpr std::uint32_t shards = 16;
};

/// The status of a rejection, and its text by reason.
struct limit_text {
    unsigned status;
    char const* limited;     // rejected immediately
    char const* late;        // timed out, or the wait would exceed the patience
    char const* queue_full;  // the queue is full
};

/// A limit of the configuration, shared by all threads and all routes that name it.
class limit : public limiting::limit<world> {
public:
    explicit limit(config::limit const& c);

    /// Waits until the request is granted or rejected, or until the client closes the connection.
    [[nodiscard]] virtual net::task<verdict<weir::permit>> enter(
        request_info const& who, limiting::selected const& at, net::connection& client,
        weir::duration patience);

    /// The longest time that the decision takes while permits are available: 0 without a store.
    [[nodiscard]] virtual weir::duration round_trip() const { return {}; }
    /// Further figures for the report.
    [[nodiscard]] virtual std::string more() const { return {}; }
    /// The figures of the store; none without one.
    [[nodiscard]] virtual std::optional<weir::shared_stats> store_stats() const { return {}; }

    void change_rule(weir::limiter_config const& rule) final;

    /// The rule that an operator replaced. Call these members on the thread that configures.
    struct replaced_rule {
        weir::limiter_config rule;
        std::chrono::system_clock::time_point at;
    };
    [[nodiscard]] std::optional<replaced_rule> const& replaced() const noexcept {
        return replaced_;
    }
    void replaced(std::optional<replaced_rule> what) { replaced_ = std::move(what); }

    /// The record of its requests, for previews; null if it keeps none. Call these members on the thread that
    /// configures.
    [[nodiscard]] std::shared_ptr<arrivals> const& record() const noexcept { return record_; }
    /// Begins or ends the record.
    void keep_record(bool wanted);

    /// The name, which never changes. Thread-safe.
    [[nodiscard]] std::string const& name() const noexcept { return name_; }
    /// Unique in this process.
    [[nodiscard]] std::uint64_t id() const noexcept { return id_; }

    /// The policy that responses state.
    [[nodiscard]] policy quotas() const { return quotas_.now(); }
    using override_quotas = std::vector<std::vector<quota>>;
    /// The quotas of each override, without any for an unlimited one; of a tree, the quota of each node, by its number.
    /// Call it on the thread that configures.
    [[nodiscard]] override_quotas overrides_quotas() const;

    [[nodiscard]] limit_text const& text() const noexcept { return text_; }
    [[nodiscard]] bool is_keyed() const noexcept { return is_keyed_; }
    [[nodiscard]] bool is_of_store() const noexcept { return is_of_store_; }

private:
    limit_text text_;
    rule_quotas quotas_;
    bool is_keyed_;
    bool is_of_store_;
    std::optional<replaced_rule> replaced_;
    std::shared_ptr<arrivals> record_;
    std::string const name_;
    std::uint64_t const id_;
};

/// Makes a limit that this process counts. `ex` serves waiting requests, so it must run while any request can wait.
[[nodiscard]] std::shared_ptr<limit> make_limit(net::executor const& ex, config::limit const& c);

}  // namespace proxy
