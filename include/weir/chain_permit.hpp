#pragma once

#include <weir/detail/chain/protocol.hpp>
#include <weir/error.hpp>
#include <weir/outcome.hpp>
#include <weir/permit.hpp>
#include <weir/time.hpp>

#include <boost/container/static_vector.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

namespace weir {

/// What a chain of `N` limiters grants: a permit of each of them. They leave together when it is destroyed. With
/// `std::dynamic_extent` it is what an `any_chain` grants.
///
/// It may be moved to, used in and destroyed on any thread, after limiters were closed, and after limiters and
/// execution contexts have gone, as a `permit`. An empty one is what a rejection comes with.
///
///     auto turn = co_await chain.enter();
///     turn[1].settle(bytes);   // what the second limiter was asked for was an estimate
///     turn[0].leave();         // the seat is no longer needed
template <std::size_t N>
class [[nodiscard]] chain_permit {
    static constexpr bool dynamic = N == std::dynamic_extent;

public:
    chain_permit() noexcept = default;
    // Of what a limiter has decided.
    chain_permit(std::span<detail::chain_entry> granted, std::size_t named) noexcept {
        if constexpr (dynamic)
            parts_.resize(named);
        for (auto& e : granted)
            parts_[e.index] = std::move(e.granted);
    }
    explicit chain_permit(detail::chain_rejected const& rejected) noexcept : rejected_(rejected) {}

    chain_permit(chain_permit&&) noexcept = default;
    chain_permit& operator=(chain_permit&& other) noexcept {
        chain_permit(std::move(other)).swap(*this);
        return *this;
    }
    ~chain_permit() { leave(); }

    void swap(chain_permit& other) noexcept {
        std::swap(parts_, other.parts_);
        std::swap(rejected_, other.rejected_);
    }

    /// Whether something was granted and has not been given back.
    explicit operator bool() const noexcept {
        return std::ranges::any_of(parts_, [](permit const& p) { return static_cast<bool>(p); });
    }

    /// All permits come home, in one section: they have been used, or have not. As `permit::leave` and
    /// `permit::refund`; the destructor leaves.
    void leave() noexcept {
        if (*this)
            detail::leave_together(parts_, true);
    }
    void refund() noexcept {
        if (*this)
            detail::leave_together(parts_, false);
    }

    /// Says how it went, to all limiters: as `permit::report`.
    void report(outcome o) noexcept {
        for (auto& part : parts_)
            part.report(o);
    }

    /// The permit of the limiter that the chain names at this place, counted from 0. It may be used like any
    /// other. A limiter that is named twice has one permit for both, in the first place.
    [[nodiscard]] permit& operator[](std::size_t i) noexcept { return parts_[i]; }
    [[nodiscard]] permit const& operator[](std::size_t i) const noexcept { return parts_[i]; }
    [[nodiscard]] constexpr std::size_t size() const noexcept { return parts_.size(); }

    /// How long the request has waited for its grant; 0 if it was granted at once.
    [[nodiscard]] duration waited() const noexcept {
        auto longest = duration::zero();
        for (auto const& p : parts_)
            longest = std::max(longest, p.waited());
        return longest;
    }

    /// For a rejection: which limiter has rejected, by its place; absent if none has, as for a cancellation.
    /// Where several do not let the chain go, it is that for which it takes longest, as far as that is known;
    /// or else the first.
    [[nodiscard]] std::optional<std::size_t> rejected_by() const noexcept { return rejected_.by; }

    /// For a rejection: how long to stay away before it is worth asking again: the largest time that a limiter
    /// names, as `permit::retry_after`; absent if none does.
    [[nodiscard]] std::optional<duration> retry_after() const noexcept {
        return rejected_.retry_after == forever ? std::nullopt
                                                : std::optional(rejected_.retry_after);
    }

private:
    friend chain_rejection rejection_of(error_code ec, chain_permit const& rejected) {
        return {ec, rejected.retry_after(), rejected.rejected_by()};
    }

    std::conditional_t<dynamic, boost::container::static_vector<permit, detail::most_chained>,
                       std::array<permit, dynamic ? 0 : N>>
        parts_;
    detail::chain_rejected rejected_;
};

/// It is empty, and has no part, for a rejection.
using any_chain_permit = chain_permit<std::dynamic_extent>;

}  // namespace weir
