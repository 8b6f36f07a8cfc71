#pragma once

#include <weir/amount.hpp>
#include <weir/detail/asio_host.hpp>
#include <weir/detail/throttle_source.hpp>
#include <weir/detail/throttled_buffers.hpp>
#include <weir/detail/throttled_half.hpp>
#include <weir/detail/throttled_layer.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/append.hpp>
#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/associated_immediate_executor.hpp>
#include <boost/asio/associator.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/error.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace weir::inline v0_2::detail {

/// The part of an operation in a limiter: a wish, which the limiter counts, and later permits. An operation that is
/// destroyed has transferred nothing, so the permits are refunded.
class throttled_share {
public:
    explicit throttled_share(std::shared_ptr<throttle_source> limiter) noexcept
        : by(std::move(limiter)) {}
    throttled_share(throttled_share&& other) noexcept
        : by(std::move(other.by)),
          held(std::move(other.held)),
          wants_(std::exchange(other.wants_, false)) {}
    throttled_share& operator=(throttled_share&&) = delete;
    ~throttled_share() { end(); }

    void want() noexcept {
        if (!std::exchange(wants_, true))
            by->want();
    }
    /// Releases the permits as unused, and wants no more.
    void end() noexcept {
        held.refund();
        if (std::exchange(wants_, false))
            by->want_no_more();
    }

    std::shared_ptr<throttle_source> by;
    permit held;

private:
    bool wants_ = false;
};

/// One read or one write of a throttled stream: it pays what an earlier one owes, waits until the layer is ready, takes
/// permits of each limiter in turn, transfers as many bytes, and settles the permits.
///
/// This object is the handler of each of its steps. It has the executor, the allocator and the cancellation slot of the
/// handler of the caller; after the first step that is suspended, the slot of a `cancellation_state`, so that no signal
/// between two steps is lost.
template <class Way, class Layer, class Buffers, class Handler>
class throttled_operation {
    using layer_executor = typename Layer::executor_type;
    using buffer_type = typename Way::buffer_type;
    using slot_type = boost::asio::cancellation_slot;

public:
    using executor_type = boost::asio::associated_executor_t<Handler, layer_executor>;
    using allocator_type = boost::asio::associated_allocator_t<Handler>;
    using cancellation_slot_type = slot_type;

    throttled_operation(Layer& layer, throttled_half& half, Buffers const& buffers,
                        Handler&& completes)
        : handler(std::move(completes)),
          layer_(&layer),
          half_(&half),
          buffers_(buffers),
          shares_{throttled_share(half.by(0)), throttled_share(half.by(1))} {}

    [[nodiscard]] executor_type get_executor() const noexcept {
        return boost::asio::get_associated_executor(handler, layer_->get_executor());
    }
    [[nodiscard]] allocator_type get_allocator() const noexcept {
        return boost::asio::get_associated_allocator(handler);
    }
    [[nodiscard]] slot_type get_cancellation_slot() const noexcept {
        return state_ ? state_->slot() : boost::asio::get_associated_cancellation_slot(handler);
    }

    /// Continues with the next step. It moves this object into the handler of that step.
    void proceed() {
        switch (step_) {
            case step::pay:
                if (!pays())
                    return;
                step_ = step::ask;
                [[fallthrough]];
            case step::ask:
                if (!asks())
                    return;
                step_ = step::take;
                [[fallthrough]];
            case step::take:
                if (takes())
                    transfer();
        }
    }

    /// A limiter decides.
    void operator()(error_code ec, permit granted) {
        work_.reset();
        continues_ = true;
        auto& share = shares_[at_];
        share.by->measure();
        if (granted)
            grant(std::move(granted));
        else if (ec != errc::exceeds_capacity || share.by->capacity() >= asked_)
            return complete(ec, 0);
        go_on({});
    }

    /// The layer is ready.
    void operator()(error_code ec) {
        continues_ = true;
        go_on(ec);
    }

    /// The layer has transferred `n` bytes.
    void operator()(error_code ec, std::size_t n) {
        auto const bytes = static_cast<amount>(n);
        half_->count(bytes);
        throttled_rest::permits rest;
        for (std::size_t i = 0; i != shares_.size(); ++i) {
            auto& share = shares_[i];
            if (share.held) {
                auto used = share.held.split(std::min(bytes, share.held.count()));
                used.leave();
                rest[i] = std::move(share.held);
            } else if (share.by && pays_later_) {
                half_->owe(i, bytes);
            }
        }
        throttled_rest const during_call(*half_, std::move(rest));
        continues_ = true;
        complete(ec, n);
    }

    Handler handler;

private:
    enum class step : std::uint8_t { pay, ask, take };

    void go_on(error_code ec) {
        if (!ec && state_ && state_->cancelled() != boost::asio::cancellation_type::none)
            ec = boost::asio::error::operation_aborted;
        if (ec)
            return complete(ec, 0);
        proceed();
    }

    // These steps return false if they continue later, or if the operation has completed.

    [[nodiscard]] bool pays() {
        for (; at_ != shares_.size(); ++at_) {
            while (half_->owed(at_) != 0) {
                if (!ask(half_->owed(at_)))
                    return false;
            }
            shares_[at_].end();
        }
        at_ = 0;
        return true;
    }

    [[nodiscard]] bool asks() {
        if (!half_->is_limited())
            return true;
        turn_ = half_->most();
        auto ready = any_number;
        if constexpr (waiting_layer<Layer>) {
            ready = Way::ready(*layer_);
            if (ready == 0 && !std::exchange(has_waited_, true)) {
                listen_between_steps();
                Way::wait(*layer_, std::move(*this));
                return false;
            }
            if (ready == 0) {  // the end, or an error
                pays_later_ = true;
                ready = least_at_once;
            }
        }
        for (auto& share : shares_) {
            if (!share.by)
                continue;
            if (!pays_later_)
                share.want();
            turn_ = std::min(turn_, share.by->quantum());
        }
        count_ = static_cast<amount>(boost::asio::buffer_size(
            first_bytes<buffer_type>(buffers_, static_cast<std::size_t>(std::min(turn_, ready)))));
        return true;
    }

    [[nodiscard]] bool takes() {
        while (at_ != shares_.size()) {
            auto& share = shares_[at_];
            if (!share.by || pays_later_) {
                ++at_;
            } else if (auto rest = half_->take_rest(at_)) {
                grant(std::move(rest));
            } else if (!ask(share.by->is_contended() ? turn_ : count_)) {
                return false;
            }
        }
        return true;
    }

    void transfer() {
        auto& layer = *layer_;
        if (half_->is_limited()) {
            auto const first = first_bytes<buffer_type>(buffers_, static_cast<std::size_t>(count_));
            Way::start(layer, first, std::move(*this));
        } else {
            Buffers const all(buffers_);
            Way::start(layer, all, std::move(*this));
        }
    }

    /// Asks the current limiter for `n` permits. Returns whether it has granted them.
    [[nodiscard]] bool ask(amount n) {
        auto& share = shares_[at_];
        n = std::min(n, share.by->capacity());
        share.want();
        error_code ec;
        auto granted = share.by->at_once(n, ec);
        if (!granted && ec == errc::exceeds_capacity) {
            share.by->measure();
            if (auto const less = share.by->capacity(); less < n)
                return ask(less);
        }
        if (granted) {
            share.by->measure_sometimes();
            grant(std::move(granted));
            return true;
        }
        if (ec)
            complete(ec, 0);
        else
            wait_for(n);
        return false;
    }

    void wait_for(amount n) {
        asked_ = n;
        listen_between_steps();
        work_.emplace(tracked(layer_->get_executor()));
        auto const by = shares_[at_].by;  // the operation moves
        if constexpr (std::convertible_to<executor_type, boost::asio::any_io_executor>) {
            boost::asio::any_io_executor const ex(get_executor());
            by->wait(n, throttle_source::handler_type(std::move(*this)), &ex);
        } else {
            by->wait(n, throttle_source::handler_type(std::move(*this)), nullptr);
        }
    }

    void grant(permit&& granted) {
        half_->count_wait(granted.waited());
        if (step_ == step::pay) {
            half_->pay(at_, granted.count());
            granted.leave();
            return;
        }
        count_ = std::min(count_, granted.count());
        shares_[at_].held = std::move(granted);
        ++at_;
    }

    void listen_between_steps() {
        if (state_)
            return;
        auto const slot = boost::asio::get_associated_cancellation_slot(handler);
        if (slot.is_connected())
            state_.emplace(slot, boost::asio::enable_total_cancellation());
    }

    void complete(error_code ec, std::size_t n) {
        auto const ex = layer_->get_executor();
        for (auto& share : shares_)
            share.end();
        auto last = std::move(handler);
        if (continues_)
            return std::move(last)(ec, n);
        auto const immediately = boost::asio::get_associated_immediate_executor(last, ex);
        boost::asio::dispatch(immediately, boost::asio::append(std::move(last), ec, n));
    }

    Layer* layer_;
    throttled_half* half_;
    Buffers buffers_;
    std::array<throttled_share, 2> shares_;
    std::optional<boost::asio::cancellation_state> state_;
    std::optional<decltype(tracked(std::declval<layer_executor const&>()))> work_;
    amount turn_ = 0;   // the most bytes of this turn
    amount count_ = 0;  // the bytes to transfer
    amount asked_ = 0;  // the permits for which it waits
    std::size_t at_ = 0;
    step step_ = step::pay;
    bool pays_later_ = Way::template pays_later<Layer>();
    bool has_waited_ = false;
    bool continues_ = false;  // after the initiating function
};

}  // namespace weir::inline v0_2::detail

template <template <class, class> class Associator, class Way, class Layer, class Buffers,
          class Handler, class Default>
struct boost::asio::associator<
    Associator, weir::detail::throttled_operation<Way, Layer, Buffers, Handler>, Default>
    : Associator<Handler, Default> {
    using operation = weir::detail::throttled_operation<Way, Layer, Buffers, Handler>;

    static auto get(operation const& op) noexcept {
        return Associator<Handler, Default>::get(op.handler);
    }
    static auto get(operation const& op, Default const& otherwise) noexcept {
        return Associator<Handler, Default>::get(op.handler, otherwise);
    }
};
