#pragma once

#include <weir/amount.hpp>
#include <weir/detail/asio_operation.hpp>
#include <weir/detail/verbs.hpp>
#include <weir/error.hpp>
#include <weir/key_hash.hpp>
#include <weir/permit.hpp>
#include <weir/rate.hpp>
#include <weir/time.hpp>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_executor.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>
#include <variant>

namespace weir::inline v0_2::detail {

/// The most bytes of one transfer, and the fewest to which fairness divides them: a segment of TCP.
inline constexpr amount most_at_once = 65'536;
inline constexpr amount least_at_once = 1'460;

/// Returns the bytes of 20 ms at the rate that the options of a limiter state; `otherwise` if they state none.
template <class Options>
[[nodiscard]] amount bytes_of_turn(Options const& o, amount otherwise) {
    if constexpr (requires {
                      { o.rate } -> std::convertible_to<weir::rate const&>;
                  }) {
        auto const bytes = static_cast<double>(o.rate.permits()) * 20e6 /
                           static_cast<double>(o.rate.period().count());
        return static_cast<amount>(std::min(bytes, static_cast<double>(max_amount)));
    } else if constexpr (requires { o.options.index(); }) {
        return std::visit([&](auto const& chosen) { return bytes_of_turn(chosen, otherwise); },
                          o.options);
    } else if constexpr (requires { o.parts.begin(); }) {
        for (auto const& part : o.parts)
            otherwise = std::min(otherwise, bytes_of_turn(part, otherwise));
        return otherwise;
    } else {
        return otherwise;
    }
}

/// A limiter behind an interface that does not depend on its type, and the number of streams that want its bytes now.
///
/// Threads: any thread may call any member at any time.
class throttle_source {
public:
    using handler_type = boost::asio::any_completion_handler<void(error_code, permit)>;
    using counter = std::atomic<std::uint32_t>;

    throttle_source(throttle_source const&) = delete;
    throttle_source& operator=(throttle_source const&) = delete;
    virtual ~throttle_source() = default;

    /// Grants `n` permits, or sets `ec` to the reason of a rejection. If the request must wait, does neither.
    [[nodiscard]] virtual permit at_once(amount n, error_code& ec) noexcept = 0;
    /// Starts to wait for `n` permits. `on` is the executor of the handler if an `any_io_executor` can hold it, else
    /// null.
    virtual void wait(amount n, handler_type&& handler, boost::asio::any_io_executor const* on) = 0;
    /// Takes `n` permits at once, even if they are not free.
    virtual void charge(amount n) = 0;

    /// Returns the most bytes to ask for at once.
    [[nodiscard]] amount quantum() const noexcept {
        auto const streams = std::max<amount>(wanting_->load(std::memory_order_relaxed), 1);
        auto const fair = turn_.load(std::memory_order_relaxed) / streams;
        return std::min(std::clamp(fair, least_at_once, most_at_once), capacity());
    }
    /// Returns whether several streams want bytes.
    [[nodiscard]] bool is_contended() const noexcept {
        return wanting_->load(std::memory_order_relaxed) > 1;
    }
    [[nodiscard]] amount capacity() const noexcept {
        return capacity_.load(std::memory_order_relaxed);
    }

    /// A stream wants bytes from now on; it does no longer.
    void want() noexcept { wanting_->fetch_add(1, std::memory_order_relaxed); }
    void want_no_more() noexcept { wanting_->fetch_sub(1, std::memory_order_relaxed); }

    /// Reads the options of the limiter again, which may have changed. While no request waits, a call now and then is
    /// enough.
    void measure() noexcept {
        try {
            auto const now = read();
            capacity_.store(std::max<amount>(now.capacity, 1), std::memory_order_relaxed);
            turn_.store(now.turn, std::memory_order_relaxed);
        } catch (...) {
            // Without memory for a copy of the options the last values remain.
        }
    }
    void measure_sometimes() noexcept {
        if (uses_.fetch_add(1, std::memory_order_relaxed) % 64 == 63)
            measure();
    }

protected:
    struct limits {
        amount capacity;
        amount turn;  // the bytes of 20 ms
    };

    throttle_source() noexcept = default;
    /// Counts the streams in `counts`, which must exist as long as this object.
    explicit throttle_source(counter& counts) noexcept : wanting_(&counts) {}

    [[nodiscard]] virtual limits read() const = 0;

    // Where the options state no rate, the burst is taken for 50 ms of it.
    template <class Options>
    [[nodiscard]] static limits limits_of(Options const& options, amount capacity) {
        return {capacity, bytes_of_turn(options, capacity / 5 * 2)};
    }

    template <class Start>
    static void start(Start start, handler_type&& handler, boost::asio::any_io_executor const* on) {
        if (on)
            start(boost::asio::bind_executor(*on, std::move(handler)));
        else
            start(std::move(handler));
    }

private:
    counter own_count_ = 0;
    std::atomic<std::uint32_t> uses_ = 0;
    counter* wanting_ = &own_count_;
    std::atomic<amount> capacity_ = 1;
    std::atomic<amount> turn_ = 0;
};

/// A limiter without keys. It keeps the core alive, not the limiter.
template <class Handle>
class limiter_source final : public throttle_source {
public:
    explicit limiter_source(Handle const& handle) : handle_(handle) { measure(); }

    [[nodiscard]] permit at_once(amount n, error_code& ec) noexcept override {
        return handle_.core->enter_at_once(n, ec);
    }
    void wait(amount n, handler_type&& handler, boost::asio::any_io_executor const* on) override {
        start(
            [&](auto&& bound) {
                detail::async_enter(handle_, starts_to_enter(n, {.length = patience()}),
                                    std::forward<decltype(bound)>(bound));
            },
            std::move(handler), on);
    }
    void charge(amount n) override { handle_.core->charge(n).leave(); }

private:
    [[nodiscard]] limits read() const override {
        return limits_of(handle_.core->options(), handle_.core->stats().capacity);
    }

    Handle handle_;
};

/// The numbers of streams that want bytes now, by the hash of their keys. Keys with one number make each other's
/// requests smaller, but not less fair.
struct throttle_counters {
    hash_seed seed = hash_seed::random();
    std::array<throttle_source::counter, 256> of{};
};

/// One key of a limiter by key.
template <class Keyed>
class key_source final : public throttle_source {
    using key_type = typename Keyed::key_type;

public:
    key_source(Keyed& limiter, key_type const& key, std::shared_ptr<throttle_counters> counters)
        : throttle_source(counters->of[key_hash()(counters->seed, key) % counters->of.size()]),
          counters_(std::move(counters)),
          limiter_(&limiter),
          key_(key) {
        measure();
    }

    [[nodiscard]] permit at_once(amount n, error_code& ec) noexcept override {
        return limiter_->enter_at_once(key_, n, ec);
    }
    void wait(amount n, handler_type&& handler, boost::asio::any_io_executor const* on) override {
        start(
            [&](auto&& bound) {
                limiter_->async_enter(key_, n, std::forward<decltype(bound)>(bound));
            },
            std::move(handler), on);
    }
    void charge(amount n) override { limiter_->charge(key_, n).leave(); }

private:
    [[nodiscard]] limits read() const override {
        return limits_of(limiter_->options(key_), limiter_->stats(key_).capacity);
    }

    std::shared_ptr<throttle_counters> counters_;
    Keyed* limiter_;
    key_type key_;
};

}  // namespace weir::inline v0_2::detail
