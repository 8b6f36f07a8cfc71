#pragma once

#include <weir/amount.hpp>
#include <weir/detail/operation.hpp>
#include <weir/permit.hpp>
#include <weir/queue_options.hpp>

#include <cstdint>
#include <optional>
#include <utility>

namespace weir::inline v0_2::detail {

/// The bounds of a queue: decides whether there is space for a newcomer, and which requests are dropped for it. First
/// `find` decides; after the newcomer has joined, `evict` names the requests that make way.
class places {
public:
    /// The maximum number of requests that are dropped for one newcomer.
    static constexpr int most_evictions = 16;

    /// Returns the sum of the permits of the requests that must make way for a newcomer with the request `r`; nothing
    /// if the newcomer may not wait.
    template <class Line>
    [[nodiscard]] std::optional<amount> find(request const& r, Line const& line,
                                             queue_options const& bounds) noexcept {
        first_to_go_ =
            bounds.full == when_full::evict_oldest ? line.makes_way(r, nullptr) : nullptr;
        return make_room(r, line, bounds, line.size(), line.asked(),
                         [](operation const&) noexcept {});
    }

    /// Passes each request that makes way to `drop`, which erases it from the queue. Call it after `find`, when the
    /// newcomer has joined. Returns whether any of them asked for permits.
    template <class Line, class F>
    bool evict(request const& r, Line const& line, queue_options const& bounds, F drop) noexcept {
        auto const evicted =
            make_room(r, line, bounds, line.size() - 1, line.asked() - r.count(), drop);
        return evicted.value_or(0) != 0;
    }

private:
    // Decides while `size` other requests wait for `asked` permits.
    template <class Line, class F>
    [[nodiscard]] std::optional<amount> make_room(request const& r, Line const& line,
                                                  queue_options const& bounds, std::uint64_t size,
                                                  amount asked, F drop) const noexcept {
        auto const n = r.count();
        auto left = size;
        auto permits = asked;
        auto* next = first_to_go_;
        for (int more = most_evictions;; --more) {
            bool const is_place =
                left < static_cast<std::uint64_t>(bounds.max_waiting) || left < size;
            bool const is_room = n <= bounds.max_waiting_permits - permits || n <= asked - permits;
            if (is_place && is_room)
                return asked - permits;
            if (bounds.full == when_full::reject_newest || !next || more == 0)
                return std::nullopt;
            auto& one = *std::exchange(next, line.makes_way(r, next));
            --left;
            permits -= one.count;
            drop(one);
        }
    }

    // The first request to drop for the newcomer of `find`. It is found before the newcomer joins, so that it is not
    // the newcomer itself.
    operation* first_to_go_ = nullptr;
};

}  // namespace weir::inline v0_2::detail
