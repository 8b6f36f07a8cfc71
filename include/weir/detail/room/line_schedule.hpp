#pragma once

#include <weir/detail/line.hpp>
#include <weir/detail/list.hpp>
#include <weir/detail/operation.hpp>
#include <weir/queue_options.hpp>
#include <weir/time.hpp>

#include <boost/intrusive/set.hpp>
#include <boost/intrusive/set_hook.hpp>

#include <cstdint>
#include <memory>

namespace weir::inline v0_2::detail {

struct in_lines;
using due_hook =
    boost::intrusive::set_base_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>>;

/// An operation that waits for permits of one key.
class keyed_operation : public operation {
public:
    void* line = nullptr;  // of the key

protected:
    keyed_operation() = default;
    ~keyed_operation() = default;
};

/// One of the lines of a limiter that has many.
template <class Queue>
struct scheduled_line : line<Queue>, list_hook<in_lines>, due_hook {
    using line<Queue>::line;
    using line<Queue>::next;  // not the members of the hooks
    using line<Queue>::replace;

    bool is_scheduled = false;
    time_point at{};  // when it has work, if it is scheduled

    friend bool operator<(scheduled_line const& a, scheduled_line const& b) noexcept {
        return a.at < b.at;
    }
};

/// The lines of a limiter that has many, which it owns, and when each has work: a part of the contract of `one_slot`.
/// The lines that have missed an event come first in the list.
template <class Line>
class line_schedule {
public:
    line_schedule() = default;
    line_schedule(line_schedule const&) = delete;
    line_schedule& operator=(line_schedule const&) = delete;
    ~line_schedule() {
        while (!lines_.empty())
            delete &lines_.pop_front();
    }

    /// Returns the line in which an operation waits.
    [[nodiscard]] static Line& line_of(operation const& op) noexcept {
        return *static_cast<Line*>(static_cast<keyed_operation const&>(op).line);
    }
    static void bind(operation& op, Line& l) noexcept {
        static_cast<keyed_operation&>(op).line = &l;
    }

    /// Records that all events up to `event` were applied to the line. It is due until `rest`, which may not follow in
    /// the same call: the events may have made work.
    void mark_current(Line& l, std::uint64_t event) noexcept {
        l.last_event = event;
        static_cast<list_hook<in_lines>&>(l).unlink();
        lines_.push_back(l);
        make_due(l);
    }
    /// The line has work now, until `rest`.
    void make_due(Line& l) noexcept { schedule(l, time_point::min()); }
    template <class F>
    void each_outdated(std::uint64_t event, int& budget, F f) noexcept {
        for (; budget > 0 && is_work_due(event); --budget)
            f(lines_.front());
    }
    template <class F>
    void each_due(time_point now, int& budget, F f) noexcept {
        for (; budget > 0 && !due_.empty() && due_.begin()->at <= now; --budget)
            f(static_cast<Line&>(*due_.begin()));
    }
    [[nodiscard]] bool is_work_due(std::uint64_t event) const noexcept {
        return !lines_.empty() && lines_.front().last_event != event;
    }
    template <class Next>
    [[nodiscard]] time_point next_at(Next) const noexcept {
        return due_.empty() ? never : due_.begin()->at;
    }
    /// Calls `f(line)` for each line, which has no work afterwards.
    template <class F>
    void each_line(F f) noexcept {
        visit_lines([&](Line& l) {
            f(l);
            schedule(l, never);
        });
    }

protected:
    void add(Line& l) noexcept { lines_.push_back(l); }
    template <class F>
    void visit_lines(F f) {
        for (auto* l = lines_.empty() ? nullptr : &lines_.front(); l; l = lines_.after(*l))
            f(*l);
    }
    [[nodiscard]] std::unique_ptr<Line> remove(Line& l) noexcept {
        schedule(l, never);
        static_cast<list_hook<in_lines>&>(l).unlink();
        return std::unique_ptr<Line>(&l);
    }
    void schedule(Line& l, time_point at) noexcept {
        if (l.is_scheduled && l.at == at)
            return;
        if (l.is_scheduled)
            due_.erase(due_.iterator_to(l));
        l.at = at;
        l.is_scheduled = at != never;
        if (l.is_scheduled)
            due_.insert(l);
    }

private:
    list<Line, in_lines> lines_;
    boost::intrusive::multiset<Line, boost::intrusive::base_hook<due_hook>> due_;
};

}  // namespace weir::inline v0_2::detail
