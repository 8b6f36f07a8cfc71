#pragma once

#include <weir/error.hpp>
#include <weir/key_hash.hpp>
#include <weir/permit.hpp>
#include <weir/testing.hpp>

#include "limiting/gate.hpp"
#include "limiting/limit.hpp"
#include "tool/network.hpp"

#include <boost/asio/io_context.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// Support for tests of limits: requests with chosen clients and fields, on virtual time.
namespace support {

struct test_world {
    using executor = boost::asio::io_context::executor_type;
    using timer = weir::testing::basic_timer<executor>;
    struct request_info {
        std::uint64_t client = 0;
        std::optional<weir::amount> cost = {};
        int priority = weir::standing().priority;
    };
    struct keys {
        [[nodiscard]] std::uint64_t of(request_info const& who) const noexcept {
            return who.client;
        }
        // A number, or the address of a client.
        [[nodiscard]] std::uint64_t of(std::string const& text) const {
            auto const address = tool::network_of(text);
            return address ? number_of(address->address) : std::stoull(text);
        }
        // The number of a client is its IPv4 address.
        [[nodiscard]] std::optional<std::array<std::uint8_t, 16>> client_of(
            request_info const& who) const {
            auto bytes = tool::network_of("0.0.0.0")->address;
            for (std::size_t i = 0; i != 4; ++i)
                bytes[15 - i] = static_cast<std::uint8_t>(who.client >> 8 * i);
            return bytes;
        }
        // In a tree each client is a node below the root, or each hundred of clients.
        [[nodiscard]] limiting::path_names names_of(request_info const& who) const {
            limiting::path_names names;
            names.add(std::to_string(by_hundred ? who.client / 100 : who.client));
            return names;
        }
        static std::uint64_t number_of(std::array<std::uint8_t, 16> const& address) {
            std::uint64_t number = 0;
            for (std::size_t i = 12; i != 16; ++i)
                number = number << 8 | address[i];
            return number;
        }
        bool by_hundred = false;
    };
    // A request names what the order of the queue needs.
    struct place {
        weir::queue_order order = weir::queue_order::fifo;

        [[nodiscard]] weir::request of(request_info const& who, weir::amount cost) const {
            weir::standing how;
            if (order == weir::queue_order::priority || order == weir::queue_order::fair)
                how.priority = who.priority;
            if (order == weir::queue_order::fair)
                how.flow = who.client;
            return {cost, how};
        }
    };
    using hash = weir::key_hash;
    using limit = limiting::limit<test_world>;
    static weir::amount cost_of(config::cost const& c, request_info const& who) noexcept {
        return who.cost.value_or(c.estimate);
    }
    template <class Permit>
    using handler = std::function<void(weir::error_code, Permit)>;
    static constexpr std::uint32_t shards = 1;
};

using test_limit = limiting::total_limit<test_world>;
using test_gate = limiting::gate<test_world>;

[[nodiscard]] inline config::limit limit_of(std::string name, std::string const& rule,
                                            std::string const& queue = "") {
    config::limit c;
    c.name = std::move(name);
    c.rule =
        rule.find("adaptive") == rule.npos ? config::rule_of(rule) : *config::seats_named(rule);
    c.queue = config::queue_of(queue, config::limit::default_patience);
    return c;
}

/// A request at a gate. It waits if necessary.
class visit {
public:
    explicit visit(test_gate const& gate, std::uint64_t client = 0)
        : visit(gate, test_world::request_info{.client = client}) {}
    visit(test_gate const& gate, test_world::request_info who) : entry(who), gate_(gate) {
        decided_ = gate_.enter_at_once(entry);
        if (!decided_)
            wait();
    }
    visit(visit const&) = delete;

    [[nodiscard]] bool waits() const noexcept { return !decided_; }
    [[nodiscard]] bool is_in() const noexcept { return decided_ && !entry.rejected.by; }
    /// The limit that rejected the request; empty if none did.
    [[nodiscard]] std::string rejected_by() const {
        return entry.rejected.by ? entry.rejected.by->configuration().name : "";
    }
    /// Releases the permits. Rates keep counting them.
    void leave() { entry.permits.clear(); }

    limiting::entry<test_world> entry;

private:
    void wait() {
        if (gate_.waits_for_chain(entry))
            gate_.wait_for_chain(entry, told<weir::any_chain_permit>());
        else
            gate_.next(entry).async_enter(
                entry.who, entry.at[entry.passed], entry.patience, told<weir::permit>());
    }
    template <class Permit>
    test_world::handler<Permit> told() {
        return [this](weir::error_code ec, Permit permit) {
            decided_ = !gate_.decide(entry, ec, permit) || gate_.is_in(entry);
            if (!decided_)
                wait();
        };
    }

    test_gate const& gate_;
    bool decided_ = false;
};

}  // namespace support
