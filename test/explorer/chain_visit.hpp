#pragma once

#include <weir/chain_options.hpp>
#include <weir/permit.hpp>

#include "oracle.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace explorer {

/// The number of limiters that a chain can name.
inline constexpr int chained_limiters = 3;
template <class T>
using of_each_limiter = std::array<T, chained_limiters>;

/// A request for permits of one limiter or several, with the data that its caller has.
struct visit : request {
    enum class way : std::uint8_t { enters, tries_first, tries, charges };

    way asked_by = way::enters;
    std::vector<int> named;  // limiters
    of_each_limiter<amount> asks_of{};
    bool is_chain = false;
    weir::standing ranked;         // of a chain
    bool lives_elsewhere = false;  // its handler
    weir::chain_options options;

    // The results that its caller gets.
    bool waits = false;  // the initiating function left it waiting
    bool told = false;
    bool thrown = false;
    of_each_limiter<ticket> tickets{};
    of_each_limiter<duration> waited{};  // in the queue of each limiter
    duration waited_in_all{};
    std::optional<int> rejected_by;
    std::optional<duration> retry_after;

    [[nodiscard]] bool names(int limiter) const noexcept;
    [[nodiscard]] bool asks_for_nothing() const noexcept;
    /// Returns the request at the queue of a limiter.
    [[nodiscard]] weir::request asked_of(int limiter) const;
};

[[nodiscard]] std::string name(visit const& v);

}  // namespace explorer
