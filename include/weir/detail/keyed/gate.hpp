#pragma once

#include <weir/amount.hpp>
#include <weir/detail/counters.hpp>
#include <weir/detail/gate.hpp>
#include <weir/detail/keyed/states.hpp>
#include <weir/detail/room/pause.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/policy/rule.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>

namespace weir::detail {

/// Grants by the states of keys, for keys without a room, and counts all permits in use.
template <class Key, class Hash, limiting_rule Rule, class Room>
class keyed_gate {
    using room_gate = gate<policy::ruled<Rule, std::shared_ptr<Rule const>>, gate_parts&>;

public:
    using states_type = keyed_states<Key, Hash, Rule, Room>;
    using spot = typename states_type::spot;
    using handle = typename states_type::handle;
    using doors = typename room_gate::doors;
    using answer = typename room_gate::answer;

    /// If `has_keys` is false, permits carry no key. The gate grants nothing during `p`.
    keyed_gate(permit_issuer& issuer, std::shared_ptr<Rule const> rule,
               std::shared_ptr<keyed_bounds<Hash>> bounds, bool has_keys, pause const& p)
        : issuer_(issuer),
          has_keys_(has_keys),
          pause_(p),
          states_(std::move(rule), std::move(bounds)) {}

    [[nodiscard]] states_type& states() noexcept { return states_; }
    [[nodiscard]] states_type const& states() const noexcept { return states_; }

    /// Inserts the key into the table unless it is there. Returns false if there is no space for it.
    template <class Like>
    [[nodiscard]] bool has_place(spot& where, Like const& key, std::uint64_t hash,
                                 time_point now) noexcept {
        return where || (where = states_.insert(key, hash, now));
    }
    /// Inserts the key of a permit in use like the function above, since the key may have been forgotten.
    [[nodiscard]] bool has_place(spot& where, permit_origin from, time_point now) noexcept {
        auto const key = handle::from(from.key);
        return where || (where = states_.insert(key.key(), states_.hash_of(key), now));
    }

    /// Returns whether `n` permits can be granted now; if so, the key is in the table.
    template <class Like>
    [[nodiscard]] answer consider(spot& where, keyed_lookup<Like> const& who, amount n,
                                  time_point now) noexcept {
        if (n != 0 && n > (where ? where.rule() : states_.rule_at(who.hash)).capacity())
            [[unlikely]]
            return {.rejected = errc::exceeds_capacity};
        if (!has_place(where, who.key, who.hash, now)) [[unlikely]]
            return {.rejected = errc::too_many_keys};
        auto const ready =
            n == 0 ? now : pause_.ready_at(where.rule(), n, 0, now, where.own_state());
        return {.granted = ready <= now, .ready = ready};
    }
    /// Grants `least` permits immediately, or up to `most` if they are available, or returns the reason of the
    /// rejection.
    template <class Like>
    [[nodiscard]] answer ask(spot& where, keyed_lookup<Like> const& who, amount least, amount most,
                             time_point now, permit& granted) noexcept {
        auto const asked = consider(where, who, least, now);
        if (asked.granted)
            granted = take(where, share(where, least, most, now), now);
        return asked;
    }
    /// Takes `n` permits in any state.
    [[nodiscard]] permit take(spot where, amount n, time_point now) {
        auto const t = n == 0 ? ticket() : where.rule().take(where.own_state(), n, now);
        auto const key = where.key();
        goes_out(n, key);
        counters_.grant_at_once(n);
        return permit_issuer::grant(issuer_, n, {.ticket = t, .key = key.word()}, duration::zero());
    }

    // Releases permits. The key may be missing from the table.

    void leave(spot where, amount n, permit_origin from, time_point now) noexcept {
        if (n != 0 && where)
            static_cast<void>(weir::leave(where.rule(), where.own_state(), n, from.ticket, now));
        comes_home(n, from);
    }
    void refund(spot where, amount n, permit_origin from, time_point now) noexcept {
        if (has_place(where, from, now))
            where.rule().refund(where.own_state(), n, from.ticket, now);
        out_ -= static_cast<std::uint64_t>(n);
    }
    /// Throws `std::length_error` if there is no longer space for the key.
    [[nodiscard]] ticket overdraw(spot where, amount n, amount held, permit_origin from,
                                  time_point now) {
        if (!has_place(where, from, now))
            throw std::length_error(
                "weir::keyed: the limiter has reached its maximum number of keys");
        auto const extra = where.rule().take(where.own_state(), n, now);
        out_ += static_cast<std::uint64_t>(n);
        return held == 0 ? extra : where.rule().merge(where.own_state(), from.ticket, extra, n);
    }

    // Counts.

    /// `goes_out` counts a new permit for `n`; `comes_home` counts its release.
    void goes_out(amount n, handle key) noexcept {
        ++live_;
        out_ += static_cast<std::uint64_t>(n);
        if (has_keys_)
            key.retain();
    }
    void comes_home(amount n, permit_origin from) noexcept {
        --live_;
        out_ -= static_cast<std::uint64_t>(n);
        if (has_keys_)
            handle::from(from.key).release();
    }
    /// Adds the events in the room of a key.
    void add(gate_parts::changes const& news, handle key) noexcept {
        counters_.add(news.done);
        live_ += news.live;
        out_ += news.out;
        if (!has_keys_)
            return;
        auto more = static_cast<std::int64_t>(news.live);
        for (; more > 0; --more)
            key.retain();
        for (; more < 0; ++more)
            key.release();
    }

    [[nodiscard]] detail::counters& counters() noexcept { return counters_; }
    [[nodiscard]] std::uint64_t live() const noexcept { return live_; }
    [[nodiscard]] limiter_stats stats() const noexcept {
        auto result = counters_.done();
        result.live = live_;
        result.in_use = static_cast<amount>(out_);
        return result;
    }

private:
    [[nodiscard]] amount share(spot where, amount least, amount most,
                               time_point now) const noexcept {
        return least == most
                   ? least
                   : std::clamp(where.rule().remaining(where.own_state(), now), least, most);
    }

    permit_issuer& issuer_;
    bool has_keys_;
    pause const& pause_;
    std::uint64_t live_ = 0;  // permit objects
    std::uint64_t out_ = 0;   // permits that they stand for
    detail::counters counters_;
    states_type states_;
};

}  // namespace weir::detail
