#pragma once

#include <weir/amount.hpp>
#include <weir/detail/throttle_source.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace weir::inline v0_2::detail {

class throttled_half;

/// Permits that a transfer did not need, during the call of its handler. A transfer that begins in this call continues
/// with them; otherwise they are refunded. So a stream of many small writes has turns of the same size as others.
class throttled_rest {
public:
    using permits = std::array<permit, 2>;

    throttled_rest(throttled_half& half, permits&& rest) noexcept;
    throttled_rest(throttled_rest const&) = delete;
    throttled_rest& operator=(throttled_rest const&) = delete;
    ~throttled_rest();

private:
    friend throttled_half;
    throttled_half* half_;
    permits rest_;
};

/// One direction of a throttled stream: its limiters, the bytes that it owes them, and its counters.
class throttled_half {
    using source = std::shared_ptr<throttle_source>;

public:
    throttled_half() = default;
    throttled_half(throttled_half&& other) noexcept {
        other.drop_rest();
        swap(other);
    }
    throttled_half& operator=(throttled_half&& other) noexcept {
        throttled_half moved(std::move(other));
        drop_rest();
        swap(moved);
        return *this;
    }
    ~throttled_half() {
        drop_rest();
        charge();
    }

    /// Limits by these from now on. Either may be null.
    void limit(source own, source shared) noexcept {
        drop_rest();
        charge();
        by_ = {std::move(own), std::move(shared)};
    }

    [[nodiscard]] source const& by(std::size_t i) const noexcept { return by_[i]; }
    [[nodiscard]] bool is_limited() const noexcept { return by_[0] || by_[1]; }

    /// Returns the most bytes of the next turn. It begins with a few and doubles with each transfer, so that streams
    /// that start together do not take the burst before the others are counted.
    [[nodiscard]] amount most() const noexcept { return most_; }

    void count(amount bytes) noexcept {
        bytes_ += static_cast<std::uint64_t>(bytes);
        most_ = std::min(2 * most_, static_cast<std::uint32_t>(most_at_once));
    }
    void count_wait(duration d) noexcept { waited_ += d; }
    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] duration waited() const noexcept { return waited_; }

    /// Bytes that were transferred without permits: they are paid now if that needs no wait, else by the next transfer.
    void owe(std::size_t i, amount bytes) noexcept {
        error_code ignored;
        if (bytes != 0 && !by_[i]->at_once(bytes, ignored))
            owed_[i] += static_cast<std::uint32_t>(bytes);
    }
    [[nodiscard]] amount owed(std::size_t i) const noexcept { return owed_[i]; }
    void pay(std::size_t i, amount bytes) noexcept {
        owed_[i] -= static_cast<std::uint32_t>(bytes);
    }

    /// Returns the permits that the last transfer left; empty if there are none.
    [[nodiscard]] permit take_rest(std::size_t i) noexcept {
        if (!rest_ || rest_->rest_[i].count() == 0)
            return {};
        return std::move(rest_->rest_[i]);
    }

private:
    friend throttled_rest;

    void drop_rest() noexcept {
        if (rest_)
            rest_->half_ = nullptr;
        rest_ = nullptr;
    }
    void swap(throttled_half& other) noexcept {
        std::swap(by_, other.by_);
        std::swap(owed_, other.owed_);
        std::swap(most_, other.most_);
        std::swap(bytes_, other.bytes_);
        std::swap(waited_, other.waited_);
    }

    // No transfer will pay: the limiters must count the bytes all the same.
    void charge() noexcept {
        for (std::size_t i = 0; i != by_.size(); ++i) {
            try {
                if (auto const bytes = std::exchange(owed_[i], 0); bytes != 0)
                    by_[i]->charge(bytes);
            } catch (...) {
                // Without memory for a debt these bytes are not counted.
            }
        }
    }

    std::array<source, 2> by_{};
    throttled_rest* rest_ = nullptr;
    std::array<std::uint32_t, 2> owed_{};
    std::uint32_t most_ = 4'096;
    std::uint64_t bytes_ = 0;
    duration waited_{};
};

inline throttled_rest::throttled_rest(throttled_half& half, permits&& rest) noexcept
    : half_(&half), rest_(std::move(rest)) {
    half.drop_rest();
    half.rest_ = this;
}
inline throttled_rest::~throttled_rest() {
    if (half_)
        half_->rest_ = nullptr;
    for (auto& one : rest_)
        one.refund();
}

}  // namespace weir::inline v0_2::detail
