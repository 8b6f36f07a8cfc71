#pragma once

#include <weir/detail/chain/member.hpp>
#include <weir/detail/chain/operation.hpp>
#include <weir/error.hpp>

#include <cstddef>
#include <span>

namespace weir::inline v0_2::detail {

/// A newcomer of a limiter that has to ask another core: it has left no trace at the first one.
struct sent_on {
    chain_entry* entry = nullptr;
    chain_core* to = nullptr;

    explicit operator bool() const noexcept { return to != nullptr; }
};

/// Returns whether `e`, which ended with `ec` and perhaps does not exist, has to ask another core.
[[nodiscard]] inline sent_on find_sent_on(chain_entry* e, error_code ec) noexcept {
    return {e, e ? e->member->next_after(*e, ec) : nullptr};
}

/// Makes the entry ask its next core. The entries stay in the order of the locks.
inline void send_on(std::span<chain_entry> entries, sent_on const& what) noexcept {
    what.entry->core = what.to;
    for (std::size_t i = 1; i < entries.size(); ++i) {
        for (auto at = i; at != 0 && entries[at].core < entries[at - 1].core; --at)
            entries[at].swap_requests(entries[at - 1]);
    }
}

}  // namespace weir::inline v0_2::detail
