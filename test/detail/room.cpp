#include <weir/detail/arrival_queue.hpp>
#include <weir/detail/room.hpp>

#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/slow_rules.hpp"
#include "support/stand_in.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

// A referee watches a room. It implements the promises of the documentation and of the comments in the public headers,
// keeps its own records, and checks each outcome as it occurs. It is simple, not fast. The test drives the room
// without locks, threads or clocks, and calls `do_due_work` with budgets of any size.

using namespace std::chrono_literals;
using support::random_source;
using support::slow_log;
using support::slow_seats;
using weir::amount;
using weir::duration;
using weir::errc;
using weir::error_code;
using weir::never;
using weir::permit;
using weir::ticket;
using weir::time_point;
using weir::when_full;
using weir::detail::needs;

BOOST_AUTO_TEST_SUITE(detail_room)

namespace {

auto const aborted = make_error_code(boost::asio::error::operation_aborted);

void expect(bool condition, std::string_view what) {
    if (!condition) [[unlikely]]
        BOOST_FAIL(what);
}

// The referee's record of a waiting operation.
struct booking {
    amount count = 0;
    time_point deadline = never;
    time_point since{};
    bool must_be_cancelled = false;
    bool must_be_closed = false;
    // must be examined: because options change, or while others are examined
    bool was_repriced = false;
    time_point repriced_at = never;
};

class guest final : public support::stand_in {
public:
    guest() {
        link.target = this;
        canceller = &link;
    }
    weir::detail::cancel_link link;
    booking booked;
};

class watcher final : public weir::detail::overdue_operation {
public:
    booking booked;
    bool post() override { return true; }
    void run() override {}
    void destroy() noexcept override {}
};

// A permit in use.
struct held {
    permit seat;
    time_point granted;
    bool told = false;  // that it is overdue
};

struct behaviour {
    bool prompt = true;    // does due work immediately; otherwise late, and in small portions
    bool watched = false;  // seats are held for a limited time
    bool crowded = false;  // a long queue, changing prices, and callers that leave meanwhile
};

template <class Rule>
class match final : private weir::detail::permit_issuer {
    using policy = typename Rule::policy;
    using room_type = weir::detail::room<weir::detail::one_slot<policy, weir::detail::fifo>>;
    enum class doors : std::uint8_t { open, shut_down, closed };

public:
    match(random_source& random, behaviour how)
        : random_(random),
          how_(how),
          options_(Rule::any_options(random, how.watched)),
          rule_(options_),
          queueing_{.max_waiting = how.crowded ? 1000 : random.between(0, 8),
                    .full = random.one_of({when_full::reject_newest, when_full::evict_oldest}),
                    .tolerance = duration(random.one_of({0, 0, 1, 6}))},
          room_(*this, policy(options_), queueing_) {
        room_.policy().begin(now_);
    }
    match(match const&) = delete;
    match& operator=(match const&) = delete;

    void play() {
        for (auto n = how_.crowded ? random_.between(20, 60) : 0; n != 0; --n)
            enter();
        auto const events = random_.between(20, 120);
        for (std::int64_t i = 0; i != events; ++i) {
            something_happens();
            look_around();
            if (how_.prompt || random_.one_in(8))
                work_to_the_end();
            else if (random_.one_in(2))
                do_a_portion();
        }
        the_end();
    }

private:
    // Events.

    struct choice {
        int weight;
        void (match::*happens)();
    };

    void something_happens() {
        static constexpr std::initializer_list<choice> usually{
            {30, &match::enter},          {15, &match::try_enter},   {6, &match::enter_at_once},
            {18, &match::leave},          {6, &match::refund},       {6, &match::settle_for_less},
            {6, &match::cancel_one},      {2, &match::cancel_all},   {6, &match::reprice},
            {10, &match::drain},          {6, &match::wait_overdue}, {1, &match::charge},
            {5, &match::configure_queue}, {20, &match::time_passes}, {1, &match::shut_down},
            {1, &match::close},
        };
        static constexpr std::initializer_list<choice> in_a_crowd{
            {12, &match::enter},      {6, &match::cancel_one},
            {2, &match::reprice},     {3, &match::leave},
            {3, &match::time_passes}, {2, &match::do_a_portion},
            {3, &match::try_enter},   {1, &match::cancel_all_before_newcomers},
        };
        auto const& choices = how_.crowded && !random_.one_in(20) ? in_a_crowd : usually;
        auto all = 0;
        for (auto const& c : choices)
            all += c.weight;
        auto left = random_.between(1, all);
        for (auto const& c : choices) {
            left -= c.weight;
            if (left <= 0)
                return (this->*c.happens)();
        }
    }

    void try_enter() {
        auto const n = some_amount();
        error_code ec;
        auto p = room_.try_enter(n, now_, ec);
        collect();
        expect(is_answer_of_the_gate(p, ec, n), "the gate answers");
        if (!p && ec == errc::no_permit) {
            ++expected_.no_permit;
            check_retry(p, n, counts_of_staying());
        }
    }

    void enter_at_once() {
        auto const n = some_amount();
        error_code ec;
        auto p = room_.enter_at_once(n, now_, ec);
        collect();
        if (p || ec)
            expect(is_answer_of_the_gate(p, ec, n), "the gate answers at once");
        else
            expect(must_wait(n), "no request waits that cannot be granted");
    }

    void enter() {
        auto& op = *guests_.emplace_back(std::make_unique<guest>());
        op.count = some_amount();
        bool const cancelled = random_.one_in(20);
        if (cancelled)
            room_.cancel(op, now_);
        bool const over = room_.decide(op, now_);
        expect(over == !op.link.target, "a completed operation cannot be cancelled");
        collect();
        if (cancelled) {
            expect(over && op.error == aborted && !op.granted, "the cancellation is checked first");
            ++expected_.cancelled;
            return;
        }
        if (over) {
            expect(is_answer_of_the_gate(op.granted, op.error, op.count) &&
                       op.error != errc::no_permit,
                   "decided at the gate");
            return;
        }
        expect(must_wait(op.count), "no request waits that cannot be granted");
        wait(op);
    }

    void wait(guest& op) {
        auto const far = how_.crowded && random_.one_in(2);
        auto const longest = 50 + (far ? 15 * static_cast<std::int64_t>(line_.size()) : 0);
        auto const patience =
            random_.one_in(3) ? weir::patience()
                              : weir::patience(duration(random_.between(0, longest)));
        auto const until = random_.one_in(6) ? now_ + duration(random_.between(-5, 50)) : never;
        auto const length = patience.length_or(weir::forever);
        auto const deadline = std::min(length == weir::forever ? never : now_ + length, until);
        bool const full = line_.size() >= static_cast<std::size_t>(queueing_.max_waiting);
        bool const evicts = full && queueing_.full == when_full::evict_oldest && !line_.empty();
        auto const ahead = asked_counts(evicts ? line_.front() : nullptr);
        auto const staying = counts_of_staying(evicts ? line_.front() : nullptr);

        if (room_.cannot_wait(op, {.length = patience, .until = until}, now_)) {
            collect();
            if (op.error == errc::deadline_unreachable) {
                auto const turn = rule_.turn(staying, op.count, now_);
                expect(turn && *turn > deadline, "the grant would come too late");
                ++expected_.deadline_unreachable;
            } else if (op.error == errc::timed_out) {
                expect(deadline <= now_, "its patience is 0");
                ++expected_.timed_out;
            } else {
                expect(op.error == errc::queue_full, "there is no other reason");
                expect(deadline > now_, "the queue is checked last");
                expect(full && !evicts, "the queue is full");
                ++expected_.queue_full;
            }
            expect(!op.granted && !op.link.target, "a rejection grants nothing");
            check_retry(op.granted, op.count, staying);
            return;
        }
        expect(deadline > now_, "a caller without patience does not wait");
        expect(!full || evicts, "no more requests wait than allowed");
        if (!sweep_pending_)
            expect(rule_can_tell(op.count, ahead) <= deadline,
                   "a grant that would come too late is rejected immediately");

        room_.join(op, now_);
        if (random_.one_in(20)) {  // the step could not be posted
            room_.withdraw(op);
            return;
        }
        op.booked = {.count = op.count, .deadline = deadline, .since = now_};
        if (sweep_pending_)
            reprice(op.booked);
        line_.push_back(&op);
        room_.evict(op, now_);
        must_shed_ = evicts ? line_.front() : nullptr;
        collect();
        expect(!must_shed_, "the oldest request makes way");
        work_as_a_caller();
    }

    void leave() {
        if (held_.empty())
            return;
        auto& h = held_[random_.index_in(held_)];
        bool const was_due = is_due();
        rule_.leave(h.seat.count());
        come_home(h, was_due, [](permit& p) { p.leave(); });
    }

    void refund() {
        if (held_.empty())
            return;
        auto& h = held_[random_.index_in(held_)];
        bool const was_due = is_due();
        rule_.refund(h.seat.count(), h.granted);
        come_home(h, was_due, [](permit& p) { p.refund(); });
    }

    template <class Way>
    void come_home(held& h, bool was_due, Way way) {
        expected_.in_use -= h.seat.count();
        --expected_.live;
        permit going = std::move(h.seat);
        std::swap(h, held_.back());
        held_.pop_back();
        concerned_ = false;
        way(going);
        expect(!going, "home");
        expect(concerned_ || was_due || !is_due(),
               "it returns whether other requests are concerned");
        if (concerned_)
            work_as_a_caller();
    }

    void settle_for_less() {
        if (held_.empty())
            return;
        auto& h = held_[random_.index_in(held_)];
        auto const less = random_.between(0, h.seat.count());
        bool const was_due = is_due();
        rule_.refund(h.seat.count() - less, h.granted);
        expected_.in_use -= h.seat.count() - less;
        concerned_ = false;
        h.seat.settle(less);
        expect(concerned_ || was_due || !is_due(),
               "it returns whether other requests are concerned");
        if (concerned_)
            work_as_a_caller();
    }

    void charge() {
        auto const n = some_amount();
        auto p = room_.charge(n, now_);
        expect(bool(p) == (doors_ == doors::open), "only an open limiter can be charged");
        if (!p)
            return;
        grant_at_once(std::move(p), n);
        examine_all();
    }

    void cancel_one() {
        if (line_.empty() && drains_.empty() && watchers_.empty())
            return;
        weir::detail::operation* op = nullptr;
        booking* booked = nullptr;
        while (!op) {
            auto const pick = [&](auto& list) {
                if (!list.empty()) {
                    auto* const chosen = list[random_.index_in(list)];
                    op = chosen;
                    booked = &chosen->booked;
                }
            };
            switch (random_.between(0, 2)) {
                case 0:
                    pick(line_);
                    break;
                case 1:
                    pick(drains_);
                    break;
                default:
                    pick(watchers_);
            }
        }
        booked->must_be_cancelled = true;
        room_.cancel(*op, now_);
        collect();
        expect(op->at == weir::detail::operation::place::nowhere, "cancelled immediately");
        work_as_a_caller();
    }

    void cancel_all() {
        room_.cancel_all();
        for_all([](booking& b) { b.must_be_cancelled = true; });
        sweep_pending_ = true;
        work_as_a_caller();
    }

    void cancel_all_before_newcomers() {
        for (int n = 40; n != 0; --n)
            enter();
        cancel_all();
        for (auto n = random_.between(1, 4); n != 0; --n)
            enter();
        work_to_the_end();
    }

    void reprice() {
        options_ = Rule::any_options(random_, how_.watched);
        policy next(options_);
        next.take_over(room_.policy(), now_);
        std::ranges::swap(next, room_.policy());
        rule_.change(options_, now_);
        room_.reprice();
        examine_all();
        work_as_a_caller();
    }

    // All requests in the queue are examined again.
    void examine_all() {
        for (auto* const op : line_)
            reprice(op->booked);
        sweep_pending_ = true;
    }

    void reprice(booking& b) const {
        b.was_repriced = true;
        b.repriced_at = now_;
    }

    void configure_queue() {
        queueing_.max_waiting = random_.between(1, 8);
        queueing_.full = random_.one_of({when_full::reject_newest, when_full::evict_oldest});
        room_.set_queueing(queueing_);
    }

    void shut_down() {
        room_.shut_down();
        doors_ = std::max(doors_, doors::shut_down);
    }

    void close() {
        room_.close();
        doors_ = doors::closed;
        for (auto* const op : line_)
            op->booked.must_be_closed = true;
        sweep_pending_ = true;
        work_as_a_caller();
    }

    void drain() {
        auto& op = *guests_.emplace_back(std::make_unique<guest>());
        if (random_.one_in(20))
            room_.cancel(op, now_);
        bool const cancelled = op.cancelled;
        bool const over = room_.decide_drain(op);
        expect(over == !op.link.target, "a completed operation cannot be cancelled");
        if (over) {
            expect(cancelled ? op.error == aborted : !op.error && is_idle(), "drained immediately");
            return;
        }
        expect(!cancelled && !is_idle(), "not drained yet");
        room_.join_drain(op);
        if (random_.one_in(20))
            return room_.withdraw_other(op);
        op.booked = {};
        drains_.push_back(&op);
    }

    void wait_overdue() {
        auto& op = *watching_.emplace_back(std::make_unique<watcher>());
        bool const over = room_.decide_watch(op, now_);
        if (over) {
            expect(!op.error && watchers_.empty(), "reported immediately");
            told(op);
            return;
        }
        expect(!watchers_.empty() || !anything_overdue(), "there is nothing to report");
        room_.join_watch(op);
        if (random_.one_in(20))
            return room_.withdraw_other(op);
        watchers_.push_back(&op);
    }

    void time_passes() {
        auto const next = room_.wants(now_, time_point::min()).next;
        if (next < never && next >= now_ && random_.one_in(2))
            now_ = next;
        else
            now_ += duration(random_.between(0, 25));
    }

    void the_end() {
        if (random_.one_in(4)) {
            close();
            shut_down();  // does not open it again
            work_to_the_end();
        }
        if (random_.one_in(2)) {  // the limiter object is destroyed
            room_.abandon();
            doors_ = doors::closed;
            for_all([](booking& b) { b.must_be_closed = true; });
            sweep_pending_ = true;
            work_to_the_end();
            expect(room_.is_empty(), "all waiting operations have completed");
        } else {  // the context ends
            room_.clear_out();
            while (!room_.outbox().empty()) {
                auto& op = room_.outbox().pop_front();
                expect(!op.error && !op.granted,
                       "an operation that the context destroys has no outcome");
            }
            expect(room_.nobody_waits() && room_.is_empty(), "the room is empty");
        }
        error_code ec;
        expect(!room_.try_enter(0, now_, ec) && ec == errc::closed,
               "no request is admitted any more");
        line_.clear();
        drains_.clear();
        watchers_.clear();
        while (!held_.empty()) {
            rule_.leave(held_.back().seat.count());
            held_.pop_back();
        }
        expect(room_.live() == 0, "all permits are released");
        expect(room_.stats(now_).in_use == 0, "and all that they stood for");
        expect(room_.stats(now_).remaining == rule_.remaining(now_),
               "no permit is lost or doubled");
    }

    // Events without a call.

    // Settles as a caller does after an event.
    void work_as_a_caller() {
        collect();
        if (how_.prompt)
            return;
        int budget = static_cast<int>(random_.between(1, 16));
        do_due_work(budget);
    }

    void do_a_portion() {
        int budget = static_cast<int>(random_.between(1, 4));
        do_due_work(budget);
    }

    void work_to_the_end() {
        bool const small = random_.one_in(2);
        for (int rounds = 0; room_.wants(now_, time_point::min()).due; ++rounds) {
            expect(rounds < 2000, "each portion makes progress");
            int budget = small ? static_cast<int>(random_.between(1, 3)) : 10'000;
            do_due_work(budget);
        }
        sweep_pending_ = false;
        expect(!is_due(), "all due work is done");
        check_prices();
        look_around();
    }

    void do_due_work(int& budget) {
        auto const before = budget;
        room_.do_due_work(now_, budget);
        expect(budget >= 0, "the budget is kept");
        expect(collect() <= before - budget, "operations that leave count in it");
    }

    // Checks the completed operations; returns their number.
    int collect() {
        int many = 0;
        for (; !room_.outbox().empty(); ++many)
            judge(room_.outbox().pop_front());
        return many;
    }

    void judge(weir::detail::operation& op) {
        expect(op.at == weir::detail::operation::place::nowhere && !op.canceller,
               "a completed operation does not wait");
        if (auto const place = std::ranges::find(line_, &op); place != line_.end()) {
            bool const first = place == line_.begin();
            std::vector<amount> ahead;
            for (auto i = line_.begin(); i != place; ++i)
                ahead.push_back((*i)->count);
            auto& g = **place;
            line_.erase(place);
            judge_guest(g, first, ahead);
        } else if (auto const drain = std::ranges::find(drains_, &op); drain != drains_.end()) {
            judge_other((*drain)->booked, op, is_idle() && drain == drains_.begin(),
                        "drains end in their order when the limiter is idle");
            drains_.erase(drain);
        } else {
            auto const w = std::ranges::find(watchers_, &op);
            expect(w != watchers_.end(), "no operation leaves twice");
            auto& asked = **w;
            judge_other(asked.booked, op, w == watchers_.begin(),
                        "the first to ask gets the first report");
            watchers_.erase(w);
            if (!op.error)
                told(asked);
        }
    }

    void judge_other(booking const& b, weir::detail::operation const& op, bool may_succeed,
                     std::string_view why) {
        if (op.error == aborted)
            expect(b.must_be_cancelled, "only a cancelled operation is aborted");
        else if (op.error)
            expect(op.error == errc::closed && b.must_be_closed,
                   "only the end of the limiter closes it");
        else
            expect(may_succeed && !b.must_be_closed, why);
    }

    void judge_guest(guest& g, bool first, std::vector<amount> const& ahead) {
        auto const& b = g.booked;
        auto const waited = now_ - b.since;
        if (!g.error) {
            expect(first, "first come, first served");
            expect(b.deadline >= now_, "no request is granted after its deadline");
            expect(!b.must_be_cancelled && !b.must_be_closed,
                   "a grant does not come after the end");
            expect(b.count <= rule_.capacity() && rule_.fits(b.count, now_), "there is room");
            expect(g.granted && g.granted.count() == b.count, "the grant equals the request");
            expect(g.granted.waited() == waited, "it reports its wait");
            rule_.take(b.count, now_);
            ++expected_.granted;
            expected_.waited_total += waited;
            expected_.waited_max = std::max(expected_.waited_max, waited);
            keep(std::move(g.granted), b.count);
            return;
        }

        expect(!g.granted, "a rejection grants nothing");
        expected_.rejected_waited_total += waited;
        expected_.rejected_waited_max = std::max(expected_.rejected_waited_max, waited);
        if (g.error == aborted) {
            expect(b.must_be_cancelled, "only a cancelled operation is aborted");
            ++expected_.cancelled;
        } else if (g.error == errc::closed) {
            expect(b.must_be_closed, "an open or shut-down limiter serves its queue");
            ++expected_.closed;
        } else if (g.error == errc::timed_out) {
            expect(b.deadline < now_, "never early; a deadline at the current time is met");
            ++expected_.timed_out;
        } else if (g.error == errc::shed) {
            expect(std::exchange(must_shed_, nullptr) == &g && first, "the oldest is evicted");
            ++expected_.shed;
        } else if (g.error == errc::exceeds_capacity) {
            expect(b.was_repriced && b.count > rule_.capacity(), "more than can ever be granted");
            ++expected_.exceeds_capacity;
        } else {
            expect(g.error == errc::deadline_unreachable, "there is no other reason");
            auto const turn = rule_.turn(ahead, b.count, now_);
            expect(b.was_repriced && turn && *turn > b.deadline,
                   "a rejected request could not be granted in time");
            ++expected_.deadline_unreachable;
        }
        if (g.error == errc::timed_out || g.error == errc::shed ||
            g.error == errc::deadline_unreachable)
            check_retry(g.granted, b.count, asked_counts());
        else
            expect(!g.granted.retry_after(), "a retry would not help");
    }

    // The documented rules.

    // Returns whether `p` and `ec` are right at the gate in the present state; records a grant.
    [[nodiscard]] bool is_answer_of_the_gate(permit& p, error_code ec, amount n) {
        if (doors_ != doors::open) {
            ++expected_.closed;
            return !p && ec == errc::closed && !p.retry_after();
        }
        if (n != 0 && n > rule_.capacity()) {
            ++expected_.exceeds_capacity;
            return !p && ec == errc::exceeds_capacity && !p.retry_after();
        }
        if (must_wait(n))
            return !p && ec == errc::no_permit;
        if (!p || ec || p.waited() != 0ns)
            return false;
        grant_at_once(std::move(p), n);
        return true;
    }

    [[nodiscard]] bool must_wait(amount n) const {
        return doors_ == doors::open && n != 0 && n <= rule_.capacity() &&
               (!line_.empty() || !rule_.fits(n, now_));
    }

    void grant_at_once(permit p, amount n) {
        expect(p.count() == n, "the grant equals the request");
        rule_.take(n, now_);
        ++expected_.granted;
        ++expected_.granted_immediately;
        keep(std::move(p), n);
    }

    void keep(permit p, amount n) {
        expected_.permits_granted += n;
        expected_.in_use += n;
        ++expected_.live;
        held_.push_back({std::move(p), now_});
    }

    // The retry time is exact if no request is ahead. Otherwise it holds if no request ahead gives up. It is absent
    // if no time is known. It may be earlier if requests of several sizes are ahead.
    void check_retry(permit const& rejected, amount n, std::vector<amount> const& ahead) {
        auto const answer = rejected.retry_after();
        if (n > rule_.capacity())
            return expect(!answer, "no time helps a request that is too big");
        auto const alone = rule_.turn({}, n, now_);
        auto const behind_all = rule_.turn(ahead, n, now_);
        if (!answer)
            return expect(!Rule::can_tell_when || sweep_pending_,
                          "the time is reported if it is known");
        expect(alone && now_ + *answer >= *alone,
               "not before the grant time without other requests");
        expect(behind_all && now_ + *answer <= *behind_all, "and not after the grant time");
    }

    [[nodiscard]] time_point rule_can_tell(amount n, std::vector<amount> const& ahead) const {
        auto const all = std::accumulate(ahead.begin(), ahead.end(), amount{0});
        auto const at = room_.policy().ready_at(n, all, now_);
        return at == weir::unknown ? time_point::min() : at;
    }

    // Checks that each request that still waits and had to be examined can be granted in time, as far as the rule can
    // predict.
    void check_prices() {
        std::vector<amount> ahead;
        for (auto* const g : line_) {
            expect(g->count <= rule_.capacity(), "it always exceeds the capacity");
            expect(g->booked.repriced_at != now_ ||
                       rule_can_tell(g->count, ahead) <= g->booked.deadline,
                   "it is always too late");
            ahead.push_back(g->count);
        }
    }

    [[nodiscard]] bool is_idle() const { return held_.empty() && line_.empty(); }

    [[nodiscard]] bool is_overdue(held const& h) const {
        return how_.watched && !h.told && h.seat.count() != 0 &&
               h.granted + rule_.max_hold() <= now_;
    }
    [[nodiscard]] bool anything_overdue() const {
        return std::ranges::any_of(held_, [&](held const& h) { return is_overdue(h); });
    }

    void told(watcher const& w) {
        auto const h = std::ranges::find_if(held_, [&](held const& some) {
            return some.seat.count() != 0 && some.seat.id() == w.found.id;
        });
        expect(h != held_.end() && is_overdue(*h),
               "it is in use, overdue, and reported for the first time");
        expect(std::ranges::none_of(
                   held_,
                   [&](held const& some) { return is_overdue(some) && some.granted < h->granted; }),
               "the permit that was granted first is reported first");
        expect(w.found.count == h->seat.count() && w.found.since == h->granted &&
                   w.found.held == now_ - h->granted,
               "and the report is right");
        h->told = true;
        ++expected_.overdue;
    }

    [[nodiscard]] duration most_late() const { return std::max(queueing_.tolerance, duration(1)); }

    // Returns whether any work should be done now.
    [[nodiscard]] bool is_due() const {
        for (auto const* const g : line_) {
            auto const& b = g->booked;
            if (must_go(b) || (b.deadline != never && now_ - b.deadline >= most_late()) ||
                (b.was_repriced && b.count > rule_.capacity()))
                return true;
        }
        for (auto const* const g : drains_) {
            if (must_go(g->booked) || is_idle())
                return true;
        }
        for (auto const* const w : watchers_) {
            if (must_go(w->booked) || anything_overdue())
                return true;
        }
        return !line_.empty() && line_.front()->count <= rule_.capacity() &&
               rule_.fits(line_.front()->count, now_);
    }

    // Returns when work becomes due without a call.
    [[nodiscard]] time_point next_event() const {
        auto next = never;
        for (auto const* const g : line_) {
            if (g->booked.deadline != never)
                next = std::min(next, g->booked.deadline + most_late());
        }
        if (!line_.empty() && line_.front()->count <= rule_.capacity())
            next = std::min(next, rule_.turn({}, line_.front()->count, now_).value_or(never));
        for (auto const& h : held_) {
            if (how_.watched && !watchers_.empty() && !h.told && h.seat.count() != 0)
                next = std::min(next, h.granted + rule_.max_hold());
        }
        return next;
    }

    // Checks the statistics of the room.
    void look_around() {
        collect();
        auto const n = room_.wants(now_, time_point::min());
        bool const somebody = !line_.empty() || !drains_.empty() || !watchers_.empty();
        expect(n.waiting == somebody, "the context is needed while a request waits");
        expect(n.due || !is_due(), "it reports due work");
        expect(n.due || n.next <= std::max(next_event(), now_), "and future work");
        expect(n.due || n.next > now_, "due work is reported as due");
        expect(somebody || (n.next == never && !n.due), "nothing is needed while no request waits");
        expect(room_.nobody_waits() == !somebody, "it reports whether requests wait");
        expect((room_.stats(now_).waiting == 0) == line_.empty(), "in the queue, too");
        expect(room_.perhaps_waiting() == !line_.empty(), "which can be seen without the lock");

        auto const s = room_.stats(now_);
        expect(s.granted == expected_.granted &&
                   s.granted_immediately == expected_.granted_immediately &&
                   s.permits_granted == expected_.permits_granted,
               "grants are counted");
        expect(s.no_permit == expected_.no_permit && s.timed_out == expected_.timed_out &&
                   s.deadline_unreachable == expected_.deadline_unreachable &&
                   s.queue_full == expected_.queue_full && s.shed == expected_.shed &&
                   s.exceeds_capacity == expected_.exceeds_capacity &&
                   s.closed == expected_.closed && s.cancelled == expected_.cancelled,
               "rejections are counted by their reasons");
        expect(s.waited_total == expected_.waited_total && s.waited_max == expected_.waited_max &&
                   s.rejected_waited_total == expected_.rejected_waited_total &&
                   s.rejected_waited_max == expected_.rejected_waited_max,
               "waits are added up");
        expect(s.overdue == expected_.overdue, "reports are counted");
        expect(s.waiting == line_.size() && s.waiting_for == sum_of_line(), "the line is counted");
        expect(s.oldest_wait == (line_.empty() ? 0ns : now_ - line_.front()->booked.since),
               "the oldest is known");
        expect(s.live == expected_.live && s.in_use == expected_.in_use, "permits are conserved");
        expect(s.capacity == rule_.capacity() && s.remaining == rule_.remaining(now_),
               "the rule is kept");
    }

    [[nodiscard]] amount sum_of_line() const {
        auto const all = asked_counts();
        return std::accumulate(all.begin(), all.end(), amount{0});
    }
    [[nodiscard]] std::vector<amount> asked_counts(guest const* but = nullptr) const {
        std::vector<amount> all;
        for (auto const* const g : line_) {
            if (g != but)
                all.push_back(g->count);
        }
        return all;
    }
    // Without requests that are certain to leave.
    [[nodiscard]] std::vector<amount> counts_of_staying(guest const* but = nullptr) const {
        std::vector<amount> all;
        for (auto const* const g : line_) {
            if (g != but && !must_go(g->booked) &&
                !(g->booked.was_repriced && g->count > rule_.capacity()))
                all.push_back(g->count);
        }
        return all;
    }
    [[nodiscard]] static bool must_go(booking const& b) {
        return b.must_be_cancelled || b.must_be_closed;
    }

    template <class F>
    void for_all(F f) {
        for (auto* const g : line_)
            f(g->booked);
        for (auto* const g : drains_)
            f(g->booked);
        for (auto* const w : watchers_)
            f(w->booked);
    }

    [[nodiscard]] amount some_amount() {
        return random_.one_in(12) ? 0 : random_.between(1, random_.one_in(8) ? 7 : 3);
    }

    // Does the same as the core.
    void leave(amount n, weir::detail::permit_origin from) noexcept override {
        concerned_ = room_.leave(n, from, now_);
    }
    void leave_unused(amount n, weir::detail::permit_origin from) noexcept override {
        concerned_ = room_.leave_unused(n, from, now_);
    }
    void refund(amount n, weir::detail::permit_origin from) noexcept override {
        concerned_ = room_.refund(n, from, now_);
    }
    ticket overdraw(amount n, amount held, weir::detail::permit_origin from) override {
        return room_.overdraw(n, held, from, now_);
    }
    void split(weir::detail::permit_origin) noexcept override { room_.split({}); }
    ticket merge(weir::detail::permit_origin into, weir::detail::permit_origin from,
                 amount n) noexcept override {
        return room_.merge(into, from, n);
    }
    [[nodiscard]] amount remaining(weir::detail::permit_origin) const noexcept override {
        return room_.policy().remaining(now_);
    }
    [[nodiscard]] weir::duration reset_after(weir::detail::permit_origin) const noexcept override {
        return weir::forever;
    }

    random_source& random_;
    behaviour how_;
    typename Rule::options options_;
    Rule rule_;
    weir::queue_options queueing_;
    time_point now_{1h};

    std::deque<std::unique_ptr<guest>> guests_;
    std::deque<std::unique_ptr<watcher>> watching_;
    room_type room_;
    std::vector<held> held_;  // destroyed before the room

    std::vector<guest*> line_;
    std::vector<guest*> drains_;
    std::vector<watcher*> watchers_;
    weir::limiter_stats expected_;
    doors doors_ = doors::open;
    guest* must_shed_ = nullptr;
    bool sweep_pending_ = false;  // all waiting requests are being examined
    bool concerned_ = false;
};

template <class Rule>
void play(std::uint64_t first_seed, behaviour how) {
    support::for_each_seed(first_seed, 4'000, [&](random_source& random) {
        match<Rule>(random, how).play();
    });
}

}  // namespace

BOOST_AUTO_TEST_CASE(with_seats_behaves_as_documented) {
    play<slow_seats>(1'000'000, {});
}

BOOST_AUTO_TEST_CASE(with_seats_in_small_portions_and_late_breaks_no_promise) {
    play<slow_seats>(2'000'000, {.prompt = false});
}

BOOST_AUTO_TEST_CASE(with_watched_seats_behaves_as_documented) {
    play<slow_seats>(3'000'000, {.watched = true});
}

BOOST_AUTO_TEST_CASE(with_watched_seats_in_small_portions_and_late_breaks_no_promise) {
    play<slow_seats>(4'000'000, {.prompt = false, .watched = true});
}

BOOST_AUTO_TEST_CASE(with_a_log_behaves_as_documented) {
    play<slow_log>(5'000'000, {});
}

BOOST_AUTO_TEST_CASE(with_a_log_in_small_portions_and_late_breaks_no_promise) {
    play<slow_log>(6'000'000, {.prompt = false});
}

BOOST_AUTO_TEST_CASE(with_many_requests_examines_all_and_rejects_none_that_could_be_granted) {
    play<slow_log>(7'000'000, {.crowded = true});
    play<slow_log>(8'000'000, {.prompt = false, .crowded = true});
}

BOOST_AUTO_TEST_SUITE_END()
