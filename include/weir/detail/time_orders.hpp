#pragma once

#include <weir/queue_options.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <variant>

/// The rules of the orders that depend on times alone, and their contract. A rule sees only times: the queue keeps
/// the requests, in order of arrival.
///
/// | expression                | required effect or result                                                   |
/// |---------------------------|-----------------------------------------------------------------------------|
/// | `r.foresees()`            | whether no request is ever granted before one that arrived earlier; then    |
/// |                           | the grant time of each can be predicted                                     |
/// | `r.configure(o, oldest)`  | adopt `o`, and keep all that was observed; the oldest request arrived at    |
/// |                           | `oldest`, `never` if none waits                                             |
/// | `r.begin(now)`            | a request has arrived while none waited                                     |
/// | `r.grant(waited, now)`    | a request with the wait `waited` is granted                                 |
/// | `r.end()`                 | the last request has left                                                   |
/// | `r.newest_first(now)`     | whether the newest request is next, instead of the oldest                   |
/// | `r.gives_up(since, now)`  | whether to drop the oldest request, which arrived at `since` and cannot be  |
/// |                           | granted now                                                                 |
/// | `r.next_event(since, now)`| when these results can change without an event; `never` if they cannot      |
namespace weir::inline v0_2::detail::order {

class fifo {
public:
    static constexpr auto kind = queue_order::fifo;

    [[nodiscard]] static bool foresees() noexcept { return true; }

    static void configure(queue_options const&, time_point) noexcept {}
    static void begin(time_point) noexcept {}
    static void grant(duration, time_point) noexcept {}
    static void end() noexcept {}
    [[nodiscard]] static bool newest_first(time_point) noexcept { return false; }
    [[nodiscard]] static bool gives_up(time_point, time_point) noexcept { return false; }
    [[nodiscard]] static time_point next_event(time_point, time_point) noexcept { return never; }
};

class lifo : public fifo {
public:
    static constexpr auto kind = queue_order::lifo;

    [[nodiscard]] static bool foresees() noexcept { return false; }

    [[nodiscard]] static bool newest_first(time_point) noexcept { return true; }
};

/// Source: Maurer, "Fail at Scale", ACM Queue 13(8), 2015: "adaptive LIFO".
class adaptive_lifo : public fifo {
public:
    static constexpr auto kind = queue_order::adaptive_lifo;

    [[nodiscard]] static bool foresees() noexcept { return false; }

    void configure(queue_options const& options, time_point oldest) noexcept {
        interval_ = options.interval;
        if (busy_since_ == never)
            busy_since_ = oldest;
    }
    void begin(time_point now) noexcept { busy_since_ = now; }
    [[nodiscard]] bool newest_first(time_point now) const noexcept { return now >= reverses_at(); }
    [[nodiscard]] time_point next_event(time_point, time_point now) const noexcept {
        return newest_first(now) ? never : reverses_at();
    }

private:
    [[nodiscard]] time_point reverses_at() const noexcept {
        return later(busy_since_, interval_ + duration(1));
    }

    duration interval_{};
    time_point busy_since_ = never;
};

/// Source: Nichols and Jacobson, "Controlling Queue Delay", ACM Queue 10(5), 2012, in the form for request queues of
/// "Fail at Scale": while the queue is overloaded, it drops requests that have waited longer than twice the target.
class codel : public fifo {
public:
    static constexpr auto kind = queue_order::codel;

    void configure(queue_options const& options, time_point oldest) noexcept {
        target_ = options.target;
        bool const is_as_long = interval_ == options.interval;
        interval_ = options.interval;
        if (ends_ == never || !is_as_long)
            begin(oldest);
    }
    void begin(time_point now) noexcept {
        is_overloaded_ = false;
        shortest_ = nobody;
        ends_ = later(now, interval_);
    }
    void grant(duration waited, time_point now) noexcept {
        update(now);
        shortest_ = std::min(shortest_, waited);
    }
    [[nodiscard]] bool gives_up(time_point since, time_point now) noexcept {
        update(now);
        return is_overloaded_ && now >= gives_up_at(since);
    }
    [[nodiscard]] time_point next_event(time_point since, time_point) const noexcept {
        return is_overloaded_ ? std::min(ends_, gives_up_at(since)) : ends_;
    }

private:
    static constexpr auto nobody = duration::max();

    // Ends each interval that is over.
    void update(time_point now) noexcept {
        if (now < ends_)
            return;
        auto const later_ones = (now - ends_) / interval_;  // intervals without a grant
        is_overloaded_ = later_ones != 0 || shortest_ > target_;
        shortest_ = nobody;
        ends_ = later(ends_, interval_ * (later_ones + 1));
    }
    [[nodiscard]] time_point gives_up_at(time_point since) const noexcept {
        return later(since, target_ + target_ + duration(1));
    }

    duration target_{};
    duration interval_{};
    bool is_overloaded_ = false;  // in the last interval no request was granted within the target
    duration shortest_ = nobody;  // the shortest wait of a request granted in this interval
    time_point ends_ = never;     // of this interval
};

/// The rule above that the options select at run time.
class any {
public:
    [[nodiscard]] bool foresees() const noexcept { return is_fifo() || other_foresees(); }
    void configure(queue_options const& options, time_point oldest) noexcept;
    void begin(time_point now) noexcept {
        if (!is_fifo())
            other_begin(now);
    }
    void grant(duration waited, time_point now) noexcept {
        if (!is_fifo())
            other_grant(waited, now);
    }
    static void end() noexcept {}
    [[nodiscard]] bool newest_first(time_point now) const noexcept {
        return !is_fifo() && other_newest_first(now);
    }
    [[nodiscard]] bool gives_up(time_point since, time_point now) noexcept {
        return !is_fifo() && other_gives_up(since, now);
    }
    [[nodiscard]] time_point next_event(time_point since, time_point now) const noexcept {
        return is_fifo() ? never : other_next_event(since, now);
    }

private:
    [[nodiscard]] bool is_fifo() const noexcept { return rule_.index() == 0; }

    // The same, of a rule other than `fifo`.
    [[nodiscard]] bool other_foresees() const noexcept;
    void other_begin(time_point now) noexcept;
    void other_grant(duration waited, time_point now) noexcept;
    [[nodiscard]] bool other_newest_first(time_point now) const noexcept;
    [[nodiscard]] bool other_gives_up(time_point since, time_point now) noexcept;
    [[nodiscard]] time_point other_next_event(time_point since, time_point now) const noexcept;

    std::variant<fifo, lifo, adaptive_lifo, codel> rule_;  // as `queue_order` has them
};

}  // namespace weir::inline v0_2::detail::order
