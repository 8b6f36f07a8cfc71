#include "chain_visit.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace explorer {

bool visit::names(int limiter) const noexcept {
    return std::ranges::find(named, limiter) != named.end();
}

bool visit::asks_for_nothing() const noexcept {
    return std::ranges::all_of(asks_of, [](amount each) { return each == 0; });
}

weir::request visit::asked_of(int limiter) const {
    return is_chain ? weir::request(asks_of[static_cast<std::size_t>(limiter)], ranked)
                    : asks_for();
}

std::string name(visit const& v) {
    return fmt::format("{} of caller {} for {} of {}", v.is_chain ? "the chain" : "the request",
                       v.caller, fmt::join(v.asks_of, ", "), fmt::join(v.named, ", "));
}

}  // namespace explorer
