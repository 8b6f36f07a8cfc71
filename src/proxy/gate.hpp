#pragma once

#include <weir/permit.hpp>
#include <weir/shared/engine.hpp>

#include "net/asio.hpp"
#include "net/connection.hpp"
#include "options.hpp"
#include "rule.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace proxy {

/// What a request got at the gate.
struct entry {
    static constexpr std::size_t max_rules = 4;

    explicit entry(std::uint64_t key) noexcept : who(key) {}

    std::uint64_t who;  // the `weir::client_key` of the client

    // One of each rule that it has passed. They leave in the reverse order.
    std::array<weir::permit, max_rules> permits;
    std::size_t passed = 0;

    unsigned status = 0;  // if it was turned away; 0 otherwise
    char const* why = nullptr;
    std::chrono::seconds retry_after{};
    net::presence client = net::presence::here;  // otherwise it hung up while it waited

    /// How long it has waited, all in all.
    [[nodiscard]] weir::duration waited() const noexcept;

    /// The request has not gone on after all: as if it had never been let in.
    void give_back() noexcept;
};

/// The limiters in front of the upstream, shared by all threads: an ordered list of rules, which a request
/// passes one after the other, holding what it got of those before while it waits for the next.
///
/// First the limits of the client, then those of all clients together: a request that waits for its own
/// client, or is refused for it, holds nothing that another client could use. Afterwards the limits of the
/// client have been kept when the request goes into the shared queue, and not when it reaches the upstream.
///
/// Of both, first a seat, then the rate. The rate is about when a request reaches the upstream, so its token
/// must be the last thing that a request waits for: tokens that were handed out to requests which
/// then wait for a seat could all go on in the same moment. A seat that is held while its request
/// waits for a token costs nothing, since nobody could go on without a token.
class gate {
public:
    /// Those who wait are served on `ex`, which must run for as long as anybody may wait.
    /// An engine keeps the rate, if there is one.
    gate(net::executor const& ex, options const& o, std::shared_ptr<weir::engine> const& e);

    /// Lets a request in, or turns it away, if nobody has to wait for that. Otherwise false: it is to
    /// wait for its turn.
    [[nodiscard]] bool enter_at_once(entry& e);

    /// Lets it in, in its turn. A client that hangs up while it waits leaves at once; if it may still
    /// read, it is turned away.
    [[nodiscard]] net::task<> enter_in_turn(entry& e, net::connection& client);

    /// Whether a request that was let in may be sent a second time, which the rates count again. It waits for nothing
    /// but an engine.
    [[nodiscard]] net::task<bool> enter_again(entry& e, net::connection& client);

    /// How it went at the upstream, by which adaptive seats are moved: the request needs its seat no more.
    void report(entry& e, weir::outcome how) const noexcept;

    /// What the limiters have done, and who is in: a line for each.
    [[nodiscard]] std::string report() const;

private:
    template <class Rule, class... Arguments>
    void add(Arguments const&... arguments);

    std::vector<std::unique_ptr<rule>> rules_;  // in their order
    std::optional<std::size_t> adaptive_;       // which of them wants to know how it went
    weir::duration patience_;
};

}  // namespace proxy
