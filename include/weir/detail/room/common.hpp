#pragma once

#include <weir/amount.hpp>
#include <weir/detail/chain/operation.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/random.hpp>
#include <weir/detail/room/deadlines.hpp>
#include <weir/detail/room/places.hpp>
#include <weir/detail/wait_recorder.hpp>
#include <weir/queue_options.hpp>

#include <atomic>
#include <cstdint>

namespace weir::inline v0_2::detail {

/// The parts that all lines of a limiter share.
struct common_parts {
    explicit common_parts(queue_options const& options) noexcept : queueing(options) {}

    /// Waiting operations are numbered in order of arrival, from 1 on.
    [[nodiscard]] std::uint64_t take_number() noexcept { return next_number++; }

    /// The requests in all lines, and the permits for which they ask.
    [[nodiscard]] std::uint64_t waiting() const noexcept { return waiting_; }
    [[nodiscard]] amount waiting_for() const noexcept { return waiting_for_; }
    /// Returns whether a request waits, as seen without the lock: perhaps out of date.
    [[nodiscard]] bool perhaps_waiting() const noexcept {
        return perhaps_waiting_.load(std::memory_order_relaxed);
    }

    void count_arrival(amount n) noexcept {
        ++waiting_;
        waiting_for_ += n;
        perhaps_waiting_.store(true, std::memory_order_relaxed);
    }
    void count_departure(amount n) noexcept {
        --waiting_;
        waiting_for_ -= n;
        perhaps_waiting_.store(waiting_ != 0, std::memory_order_relaxed);
    }

    queue_options queueing;
    std::uint64_t next_number = 1;
    std::uint64_t chains = 0;  // waiting chains, in all lines; one that names two keys counts twice
    detail::deadlines deadlines;
    detail::places places;
    operation_list outbox;  // operations that have left, with their outcomes
    call_list calls;        // chains that were called, and are owed a claim
    wait_recorder waits;
    detail::jitter jitter;

private:
    std::uint64_t waiting_ = 0;
    amount waiting_for_ = 0;
    std::atomic<bool> perhaps_waiting_ = false;
};

/// The events that concern all lines of a limiter. A limiter by key has too many lines to visit all of them at once: an
/// event reaches each line before the next event in the line itself, or by `do_due_work`.
class line_events {
public:
    /// Grows with each event. A line that was opened later has missed none.
    [[nodiscard]] std::uint64_t last_event() const noexcept { return last_event_; }

    void queueing_changes() noexcept { queueing_ = ++last_event_; }
    void close() noexcept { closed_ = ++last_event_; }
    void cancel_all() noexcept { cancelled_ = ++last_event_; }
    void reprice() noexcept { repriced_ = ++last_event_; }

    /// Applies the events to a line that has missed those after `l.last_event`.
    template <class Line>
    void apply(Line& l, common_parts const& parts) const noexcept {
        if (l.last_event < queueing_)
            l.configure(parts.queueing);
        if (l.last_event < closed_) {
            l.sweep().close();
            l.begin_sweep();
        }
        if (l.last_event < cancelled_)
            cancel_all(l, parts);
        if (l.last_event < repriced_)
            reprice(l);
    }
    /// Cancels all requests of one line.
    template <class Line>
    static void cancel_all(Line& l, common_parts const& parts) noexcept {
        l.sweep().cancel_before(parts.next_number);
        l.begin_sweep();
    }
    /// Examines all requests of one line again.
    template <class Line>
    static void reprice(Line& l) noexcept {
        if (l.is_idle())
            return;
        l.sweep().reprice();
        l.begin_sweep();
    }

private:
    std::uint64_t last_event_ = 0;
    std::uint64_t queueing_ = 0;  // the last event of each kind
    std::uint64_t closed_ = 0;
    std::uint64_t cancelled_ = 0;
    std::uint64_t repriced_ = 0;
};

}  // namespace weir::inline v0_2::detail
