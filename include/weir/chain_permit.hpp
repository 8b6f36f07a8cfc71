#pragma once

#include <weir/detail/chain/protocol.hpp>
#include <weir/error.hpp>
#include <weir/limiter_name.hpp>
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

namespace weir::inline v0_2 {

namespace detail {

/// Whether a chain without limiters has granted: only such a chain that is put together at run time can.
template <bool possible>
struct grants_nothing {
    static constexpr bool is = false;
};
template <>
struct grants_nothing<true> {
    grants_nothing() noexcept = default;
    grants_nothing(grants_nothing&& other) noexcept : is(std::exchange(other.is, false)) {}
    grants_nothing& operator=(grants_nothing&& other) noexcept {
        is = std::exchange(other.is, false);
        return *this;
    }

    bool is = false;
};

}  // namespace detail

/// The permits of a chain of `N` limiters, one for each. They are released together on destruction.
/// `std::dynamic_extent` is for `any_chain`.
///
///     auto permits = co_await chain.enter();
///     permits[1].settle(bytes);   // the request for the second limiter was an estimate
///     permits[0].leave();         // the seat is no longer needed
///
/// Like a `permit`, it may be moved to, used on and destroyed on any thread, also after limiters were closed, and after
/// limiters and execution contexts were destroyed. A rejection comes with an empty one.
template <std::size_t N>
class [[nodiscard]] chain_permit {
    static constexpr bool dynamic = N == std::dynamic_extent;

public:
    /// An empty permit.
    chain_permit() noexcept = default;
    // Takes one permit of each limiter by counting. Stays empty if that is not possible.
    explicit chain_permit(std::span<detail::chain_member* const> members) noexcept {
        if constexpr (dynamic)
            parts_.resize(members.size());
        bool const counted = detail::take_by_counting(members, parts_);
        if constexpr (dynamic)
            grants_nothing_.is = counted && members.empty();
    }
    // Takes the grants of the limiters.
    chain_permit(std::span<detail::chain_entry> granted, std::size_t named,
                 duration waited) noexcept
        : waited_(waited) {
        if constexpr (dynamic) {
            parts_.resize(named);
            grants_nothing_.is = named == 0;
        }
        for (auto& e : granted)
            parts_[e.index] = std::move(e.granted);
    }
    explicit chain_permit(detail::chain_rejected const& rejected) noexcept : rejected_(rejected) {}
    // Takes the decision of the limiters. Precondition: it took no permit by counting.
    void adopt(detail::chain_answer const& decision,
               std::span<detail::chain_entry> granted) noexcept {
        if (decision.granted) {
            for (auto& e : granted)
                parts_[e.index] = std::move(e.granted);
        } else {
            rejected_ = decision.rejected;
            if constexpr (dynamic)
                parts_.clear();
        }
    }

    /// Moves the permits. The source is empty afterwards.
    chain_permit(chain_permit&&) noexcept = default;
    /// Releases the permits of this object and moves the permits of `other` here.
    chain_permit& operator=(chain_permit&& other) noexcept {
        chain_permit(std::move(other)).swap(*this);
        return *this;
    }
    /// Releases all permits at once, as used.
    ~chain_permit() { leave(); }

    /// Exchanges the permits with the permits of `other`.
    void swap(chain_permit& other) noexcept {
        std::swap(parts_, other.parts_);
        std::swap(rejected_, other.rejected_);
        std::swap(waited_, other.waited_);
        std::swap(grants_nothing_, other.grants_nothing_);
    }

    /// Returns whether it holds a permit that is not released. This is also true for a grant of a chain without
    /// limiters.
    explicit operator bool() const noexcept {
        return grants_nothing_.is ||
               std::ranges::any_of(parts_, [](permit const& p) { return static_cast<bool>(p); });
    }

    /// Releases all permits at once, as used; see `permit::leave`. The destructor does this too.
    void leave() noexcept { end(true); }
    /// Releases all permits at once, as unused; see `permit::refund`.
    void refund() noexcept { end(false); }

    /// Reports the outcome of the work to all limiters; see `permit::report`.
    void report(outcome o) noexcept {
        for (auto& part : parts_)
            part.report(o);
    }

    /// Returns the permit of the limiter with this index in the chain. Use it like any other permit. A limiter that is
    /// named twice has one permit, at its first index.
    [[nodiscard]] permit& operator[](std::size_t i) noexcept { return parts_[i]; }
    /// Returns the permit of the limiter with this index in the chain.
    [[nodiscard]] permit const& operator[](std::size_t i) const noexcept { return parts_[i]; }
    /// Returns the number of permits.
    [[nodiscard]] constexpr std::size_t size() const noexcept { return parts_.size(); }

    /// Returns the wait of the chain, by the clock of its first limiter; 0 if it was granted immediately. The `waited` of
    /// a part is the time that the chain spent in the queue of that limiter.
    [[nodiscard]] duration waited() const noexcept { return *this ? waited_ : duration::zero(); }

    /// Returns, for a rejection, the index of the limiter that rejected; absent if no limiter did, as for a
    /// cancellation. If several limiters could not grant, it is the one with the longest known time, or else the first.
    [[nodiscard]] std::optional<std::size_t> rejected_by() const noexcept { return rejected_.by; }

    /// Returns, for a rejection, the time until a retry is useful: the longest `permit::retry_after` of the limiters;
    /// absent if it is unknown for all.
    [[nodiscard]] std::optional<duration> retry_after() const noexcept {
        return rejected_.what.retry_after == forever ? std::nullopt
                                                     : std::optional(rejected_.what.retry_after);
    }

    /// Returns, for a rejection, the name of the limiter that rejected: `queue_options::name`. Empty if it has none.
    [[nodiscard]] limiter_name limiter() const noexcept { return rejected_.what.by; }

private:
    friend chain_rejection rejection_of(error_code ec, chain_permit const& rejected) {
        return {rejected.rejected_.what, ec, rejected.rejected_by()};
    }

    void end(bool used) noexcept {
        if (*this)
            detail::leave_together(parts_, used);
        if constexpr (dynamic)
            grants_nothing_.is = false;
    }

    std::conditional_t<dynamic, boost::container::static_vector<permit, detail::most_chained>,
                       std::array<permit, dynamic ? 0 : N>>
        parts_;
    duration waited_{};
    detail::chain_rejected rejected_;
    [[no_unique_address]] detail::grants_nothing<dynamic> grants_nothing_;
};

/// The permits of an `any_chain`. For a rejection it is empty and has no parts.
using any_chain_permit = chain_permit<std::dynamic_extent>;

}  // namespace weir::inline v0_2
