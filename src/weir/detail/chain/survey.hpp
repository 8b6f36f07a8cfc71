#pragma once

#include <weir/detail/chain/member.hpp>
#include <weir/detail/chain/operation.hpp>
#include <weir/detail/chain/protocol.hpp>
#include <weir/error.hpp>
#include <weir/time.hpp>

#include <boost/asio/error.hpp>

#include <bitset>
#include <cstddef>
#include <span>
#include <utility>

namespace weir::inline v0_2::detail {

/// The replies of the limiters of a chain.
struct survey {
    survey(std::span<chain_entry> entries, section_time& t) {
        for (std::size_t i = 0; i != entries.size(); ++i) {
            auto const turn = entries[i].member->consider(entries[i], t);
            if (turn.lets) [[likely]] {
                lets.set(i);
                continue;
            }
            all_let = false;
            add(entries[i], turn);
        }
    }

    [[nodiscard]] bool says_when() const noexcept { return longest != forever; }

    std::bitset<most_chained> lets;  // the entries whose limiters allow the chain
    bool all_let = true;

    // A final error.
    error_code error;
    chain_entry* rejects = nullptr;

    // The limiter with the longest known wait, or else the first one that blocks the chain.
    chain_entry* named = nullptr;
    duration longest = forever;  // `forever` if none is known

    // The limiter that is predicted to allow it last: an unknown time is later than any known one.
    chain_entry* last = nullptr;
    duration last_in{};

private:
    void add(chain_entry& e, chain_reply const& t) noexcept {
        if (t.rejected) {
            if (!rejects ||
                std::pair(rank(t.rejected), e.index) < std::pair(rank(error), rejects->index)) {
                rejects = &e;
                error = t.rejected;
            }
            return;
        }
        if (!last || t.ready_in > last_in || (t.ready_in == last_in && e.index < last->index)) {
            last = &e;
            last_in = t.ready_in;
        }
        bool const known = t.ready_in != forever;
        bool const longer = known && (!says_when() || t.ready_in > longest);
        bool const as_long = known ? t.ready_in == longest : !says_when();
        if (!named || longer || (as_long && e.index < named->index)) {
            named = &e;
            longest = t.ready_in;
        }
    }

    // The order of the checks of a limiter.
    static int rank(error_code ec) noexcept {
        return ec == errc::closed ? 0 : ec == boost::asio::error::operation_aborted ? 1 : 2;
    }
};

}  // namespace weir::inline v0_2::detail
