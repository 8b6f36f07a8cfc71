#pragma once

#include <weir/amount.hpp>
#include <weir/detail/throttle_source.hpp>
#include <weir/policy/token_bucket.hpp>
#include <weir/rate.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

namespace weir::inline v0_2 {

namespace detail {

struct throttle_access;

template <class Limiter>
concept throttling_limiter = requires(Limiter const& l) { l.with(request()).handle(); };
template <class Limiter>
concept throttling_keyed = requires(Limiter& l, typename Limiter::key_type const& key) {
    l.with(key, request());
    l.options(key);
    l.stats(key);
};

}  // namespace detail

/// Returns the options of a `token_bucket` for a bandwidth in bytes per second. The burst is the bytes of 50 ms, and at
/// least 16 KiB. A burst of 50 ms loses nothing if the process is late by up to that time.
///
///     weir::token_bucket all{ctx, weir::bandwidth(5'000'000), {.max_waiting = weir::unlimited}};
///
/// @throws std::invalid_argument unless 0 <= `bytes_per_second` <= `max_amount`
[[nodiscard]] inline token_bucket_options bandwidth(amount bytes_per_second) {
    return {.rate = {bytes_per_second, std::chrono::seconds(1)},
            .burst = std::max<amount>(bytes_per_second / 20, 16'384)};
}

/// A limiter of bytes that throttles streams, where one permit is one byte; see `throttled_stream`.
///
///     weir::throttle const all{bytes};
///     stream.throttle_writes(all);
///
/// Copies are the same throttle. Streams share a limiter evenly if they use copies of one throttle: it counts the
/// streams that want bytes, and divides what one of them asks for at once by that number. So make one throttle for a
/// limiter, and copy it.
///
/// The limiter may have any rule, but no keys: see `keyed_throttle`. Rates shared through a store are not supported.
/// Each waiting stream is a waiting request: set `queue_options::max_waiting` to at least the number of streams.
///
/// Threads: streams on several threads may use copies of one throttle.
///
/// Lifetime: the limiter may be destroyed first. Then transfers of the streams end with `errc::closed`.
class throttle {
public:
    /// A throttle that limits nothing.
    throttle() = default;

    /// A throttle by `limiter`.
    ///
    /// @throws std::bad_alloc
    template <detail::throttling_limiter Limiter>
    explicit throttle(Limiter const& limiter) {
        auto const link = limiter.with(request());
        using handle = std::remove_cvref_t<decltype(link.handle())>;
        source_ = std::make_shared<detail::limiter_source<handle>>(link.handle());
    }

    /// Returns whether it limits anything.
    [[nodiscard]] explicit operator bool() const noexcept { return source_ != nullptr; }

private:
    friend detail::throttle_access;
    explicit throttle(std::shared_ptr<detail::throttle_source> source) noexcept
        : source_(std::move(source)) {}

    std::shared_ptr<detail::throttle_source> source_;
};

/// The throttles of a limiter by key, such as the address of a client: all streams of one key share its bytes evenly.
///
///     weir::keyed<std::uint64_t, weir::token_bucket> per_client{ctx, weir::bandwidth(1'000'000)};
///     weir::keyed_throttle const clients{per_client};
///     stream.throttle_writes(clients.of(address), all);
///
/// Make one object for a limiter. It takes a KiB, and counts the streams that want bytes by a hash of their key.
///
/// Threads: any thread may call `of` at any time.
///
/// Lifetime: the limiter must exist as long as a stream uses one of the throttles.
template <detail::throttling_keyed Keyed>
class keyed_throttle {
public:
    /// The type of the keys.
    using key_type = typename Keyed::key_type;

    /// Throttles by the keys of `limiter`.
    ///
    /// @throws std::bad_alloc
    explicit keyed_throttle(Keyed& limiter)
        : limiter_(&limiter), counters_(std::make_shared<detail::throttle_counters>()) {}

    /// Returns the throttle of a key.
    ///
    /// @throws std::bad_alloc and all that copying the key throws
    [[nodiscard]] throttle of(key_type const& key) const;

private:
    Keyed* limiter_;
    std::shared_ptr<detail::throttle_counters> counters_;
};

struct detail::throttle_access {
    [[nodiscard]] static throttle make(std::shared_ptr<throttle_source> source) noexcept {
        return throttle(std::move(source));
    }
    [[nodiscard]] static std::shared_ptr<throttle_source>& source(throttle& of) noexcept {
        return of.source_;
    }
};

template <detail::throttling_keyed Keyed>
throttle keyed_throttle<Keyed>::of(key_type const& key) const {
    return detail::throttle_access::make(
        std::make_shared<detail::key_source<Keyed>>(*limiter_, key, counters_));
}

}  // namespace weir::inline v0_2
