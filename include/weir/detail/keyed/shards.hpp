#pragma once

#include <weir/detail/asio_operation.hpp>
#include <weir/detail/enter_operation.hpp>
#include <weir/detail/keyed/start.hpp>
#include <weir/detail/keyed/states.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/time.hpp>

#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/error.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace weir::inline v0_2::detail {

inline constexpr std::uint32_t most_shards = 1024;

/// Begins to wait until one part of several is drained, unless all were cancelled meanwhile.
template <class Bounds>
struct starts_to_drain_part {
    std::shared_ptr<Bounds const> of;
    std::uint64_t cancels;

    template <class Core>
    bool operator()(std::shared_ptr<Core> const& core, operation& op) const {
        return core->drain_unless(op, [&] { return of->cancels != cancels; });
    }
};

/// A composed operation that drains one part after the other. It can be cancelled even between two parts.
template <class Core, class Executor, class Bounds>
struct drains_shards {
    std::vector<limiter_handle<Core, Executor>> parts;
    starts_to_drain_part<Bounds> start;
    std::size_t next = 0;

    template <class Self>
    void operator()(Self& self, error_code ec = {}) {
        using kind = boost::asio::cancellation_type;
        if (next == 0)
            self.reset_cancellation_state(boost::asio::enable_total_cancellation());
        else if (!ec && next != parts.size() && self.cancelled() != kind::none)
            ec = boost::asio::error::operation_aborted;
        if (ec || next == parts.size())
            return self.complete(ec);
        auto const part = parts[next++];
        boost::asio::async_initiate<Self, void(error_code)>(
            initiation<Core, Executor, drain_signature>(part), self, start);
    }
};

/// The parts of a keyed limiter, each with a lock, a timer and some of the keys. It selects the part of a key. There
/// may be one additional part, which is shared by all keys for which there is no space.
template <class Key, class Hash, class Core, class Executor>
class keyed_shards {
    template <class Like>
    using lookup = keyed_lookup<std::remove_cvref_t<Like>>;

public:
    using bounds_type = keyed_bounds<Hash>;
    using handle_type = limiter_handle<Core, Executor>;

    /// Makes `count` parts, rounded up to a power of two, but fewer if a part would have too few keys: a part forgets
    /// only its own keys. `make(bounds, all_share_one, next)` makes the core of one part, which sends new keys without a
    /// place on to the core `next`, if there is one.
    template <class Make>
    keyed_shards(Executor const& ex, std::shared_ptr<bounds_type> bounds, std::uint32_t count,
                 bool has_shared, Make make)
        : bounds_(std::move(bounds)) {
        auto const most = std::bit_floor(std::max<std::size_t>(bounds_->most_keys / least_keys, 1));
        auto const shared = has_shared ? make(bounds_, true, nullptr) : nullptr;
        for (auto more = std::min<std::size_t>(std::bit_ceil(count), most); more != 0; --more)
            parts_.push_back({make(bounds_, false, shared), ex});
        own_ = parts_.size();
        if (shared)
            parts_.push_back({shared, ex});
    }

    /// All parts; the shared part, if there is one, comes last.
    [[nodiscard]] std::span<handle_type const> all() const noexcept { return parts_; }
    [[nodiscard]] handle_type const& first() const noexcept { return parts_.front(); }
    [[nodiscard]] bool has_shared() const noexcept { return parts_.size() != own_; }
    /// The memory of all keys: of the tables, and the heap memory of the states.
    [[nodiscard]] std::size_t bytes() const noexcept {
        return bounds_->bytes.load(std::memory_order_relaxed);
    }
    /// The number of keys whose place a new key took.
    [[nodiscard]] std::uint64_t evicted() const noexcept {
        return bounds_->evicted.load(std::memory_order_relaxed);
    }

    void cancel() const noexcept {
        ++bounds_->cancels;
        for (auto const& part : parts_)
            part.core->cancel();
    }
    /// Returns the function object to compose into an operation that drains all parts.
    [[nodiscard]] auto drain() const {
        return drains_shards<Core, Executor, bounds_type>{
            parts_, {bounds_, bounds_->cancels.load()}};
    }

    /// Returns a key in the form in which the parts look it up. It is kept by reference, unless it is small.
    template <class Like>
    [[nodiscard]] auto look_up(Like const& key) const noexcept {
        check_key_like<Like, Key, Hash>();
        return look_up(key, hash_of(key));
    }

    /// Returns the index of the part that holds the state of a key with this hash, if it has one.
    [[nodiscard]] std::size_t index_of(std::uint64_t hash) const noexcept {
        return static_cast<std::size_t>(hash >> 8) & (own_ - 1);
    }
    /// Returns the part for a key with this hash. It may send a request on: see `decide_by_key`.
    [[nodiscard]] handle_type const& own_handle_for(std::uint64_t hash) const noexcept {
        return parts_[index_of(hash)];
    }
    [[nodiscard]] Core& own_core_for(std::uint64_t hash) const noexcept {
        return *own_handle_for(hash).core;
    }
    /// Returns the part that holds the state of the key, or would hold it.
    template <class Like>
    [[nodiscard]] Core& core_that_knows(keyed_lookup<Like> const& who) const noexcept {
        Core& own = own_core_for(who.hash);
        bool const is_own = !has_shared() || !bounds_->is_full() ||
                            own.ask([&](auto const& room, time_point) { return room.knows(who); });
        return is_own ? own : *parts_.back().core;
    }

    /// Does the work of the limiter's `try_enter_many`, at the time `now`.
    template <class Like>
    void try_enter_many(std::span<Like const> keys, std::span<permit> permits,
                        time_point now) const noexcept {
        check_key_like<Like, Key, Hash>();
        auto const count = std::min(keys.size(), permits.size());
        for (std::size_t i = 0; i < count; i += batch_size) {
            auto const n = std::min(batch_size, count - i);
            try_enter_batch(keys.subspan(i, n), permits.subspan(i, n), now);
        }
    }

private:
    static constexpr std::size_t batch_size = 256;
    // The minimum number of keys of a part: it must be able to forget one when there is no space.
    static constexpr std::size_t least_keys = 64;

    template <class Like>
    [[nodiscard]] std::uint64_t hash_of(Like const& key) const noexcept {
        return bounds_->hash(as_key<Key>(key));
    }
    template <class Like>
    [[nodiscard]] static auto look_up(Like const& key, std::uint64_t hash) noexcept {
        return lookup<decltype(as_key<Key>(key))>{as_key<Key>(key), hash};
    }

    // Processes part after part, in order of their first keys. In each part it first prefetches the memory of the
    // keys.
    template <class Like>
    void try_enter_batch(std::span<Like const> keys, std::span<permit> permits,
                         time_point now) const noexcept {
        for (auto& p : permits)
            p.leave();  // not under the lock
        struct one {
            std::uint64_t hash;
            std::uint32_t shard;
            std::uint16_t next;  // of the same shard, plus 1; 0 at the end
        };
        std::array<one, batch_size> batch;
        std::array<std::uint16_t, most_shards> first{};
        for (auto i = keys.size(); i-- != 0;) {
            auto const hash = hash_of(keys[i]);
            auto const shard = static_cast<std::uint32_t>(index_of(hash));
            batch[i] = {hash, shard,
                        std::exchange(first[shard], static_cast<std::uint16_t>(i + 1))};
        }
        std::bitset<batch_size> sent_on;
        error_code ec;
        for (std::size_t i = 0; i != keys.size(); ++i) {
            if (first[batch[i].shard] != i + 1)
                continue;
            auto const each_of_shard = [&](auto f) {
                for (auto at = i + 1; at != 0; at = batch[at - 1].next)
                    f(look_up(keys[at - 1], batch[at - 1].hash), static_cast<std::size_t>(at - 1));
            };
            parts_[batch[i].shard].core->modify_at(now, [&](auto& room, time_point t) {
                each_of_shard([&](auto const& who, std::size_t) { room.expect(who); });
                each_of_shard([&](auto const& who, std::size_t) { room.expect_entry(who); });
                each_of_shard([&](auto const& who, std::size_t at) {
                    permits[at] = room.try_enter(1, t, ec, who);
                    sent_on.set(at, room.sends_on(ec) != nullptr);
                });
            });
        }
        if (sent_on.none())
            return;
        parts_.back().core->modify_at(now, [&](auto& room, time_point t) {
            for (std::size_t i = 0; i != keys.size(); ++i) {
                if (sent_on[i])
                    permits[i] = room.try_enter(1, t, ec, look_up(keys[i], batch[i].hash));
            }
        });
    }

    std::shared_ptr<bounds_type> bounds_;
    std::vector<handle_type> parts_;
    std::size_t own_ = 0;  // a power of two
};

}  // namespace weir::inline v0_2::detail
