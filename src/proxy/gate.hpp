#pragma once

#include <weir/error.hpp>
#include <weir/outcome.hpp>
#include <weir/time.hpp>

#include "asking.hpp"
#include "limit.hpp"
#include "limiting/gate.hpp"
#include "net/asio.hpp"
#include "net/connection.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace proxy {

/// What a request got at the gate, and what it is told otherwise.
struct entry : limiting::entry<world> {
    using limiting::entry<world>::entry;

    unsigned status = 0;  // if it was turned away; 0 otherwise
    char const* why = nullptr;
    limit const* rejected_by = nullptr;  // also if it hung up there; the plan keeps it
    std::chrono::seconds retry_after{};
    net::presence client = net::presence::here;  // otherwise it hung up while it waited

    /// The number of the limit that has rejected it; none if a store could not be asked.
    [[nodiscard]] std::optional<std::size_t> rejected_number() const noexcept {
        bool const known = rejected.by && rejected.ec != weir::errc::unavailable;
        return known ? std::optional(rejected.number) : std::nullopt;
    }
};

/// The limits in front of one route. Any thread may use it.
class gate : private limiting::gate<world> {
    using base = limiting::gate<world>;

public:
    using base::base;

    /// Lets a request in, or turns it away, if nobody has to wait for that. Otherwise false: it is to
    /// wait for its turn.
    [[nodiscard]] bool enter_at_once(entry& e) const;

    /// Lets it in, in its turn, if it is not there yet. A client that hangs up while it waits leaves at once; if it may
    /// still read, it is turned away.
    [[nodiscard]] net::task<> enter_in_turn(entry& e, net::connection& client) const;

    /// Whether a request that was let in may be sent a second time, which the rates count again. It waits for nothing
    /// but a store.
    [[nodiscard]] net::task<bool> enter_again(entry& e, net::connection& client) const;

    using base::report;

    /// Those that a request must pass, in the order of its permits.
    [[nodiscard]] std::span<std::shared_ptr<limit> const> limits() const noexcept {
        return {all().data(), strict()};
    }

private:
    template <class Permit>
    [[nodiscard]] bool is_let_in(entry& e, verdict<Permit>& v) const;
};

}  // namespace proxy
