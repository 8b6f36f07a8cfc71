#include "support/random.hpp"

#include "support/workshop.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

// Random schedules. The oracle follows the documentation and keeps a history of each object, of the requests, and of
// the results of the factory.

using namespace support;
using kind = workshop::kind;

namespace {

using deadline = clock::time_point;
constexpr auto tolerance = 1ms;

// The history of an object that exists, found by its number.
struct history {
    deadline made;
    deadline rested_since;  // the end of its creation, or of its last use
    bool proven = true;     // created or checked, and not used since
    bool out = false;
};

struct request {
    std::uint64_t number = 0;
    deadline asked;
    deadline patience_ends;
    bool cancelled = false;
    bool over = false;
    std::unique_ptr<asio::cancellation_signal> signal =
        std::make_unique<asio::cancellation_signal>();
};

class schedule {
public:
    explicit schedule(random_source& random) : random_(random) {
        options_ = some_options();
        checks_ = random_.one_in(2);
        most_ = options_.max;
        shop_.all->on_death = [this](int number) { things_.erase(number); };
        auto const make = [this] { return begin_making(); };
        auto const check = [this](thing& one) { return this->check(one, shop_.checking); };
        if (checks_)
            pool_.emplace(ctx_, make, check, options_);
        else
            pool_.emplace(ctx_, make, options_);
    }

    void play() {
        int const actions = static_cast<int>(random_.between(20, 120));
        for (int i = 0; i != actions; ++i) {
            act();
            settle(ctx_);
            look();
        }
        finish();
    }

private:
    [[nodiscard]] weir::pool_options some_options() {
        weir::pool_options o;
        o.max = random_.between(1, 4);
        o.min = random_.one_in(2) ? 0 : random_.between(0, o.max);
        o.order = random_.one_of({weir::reuse::most_recent, weir::reuse::least_recent});
        o.max_age = some_limit(20);
        o.max_idle = some_limit(10);
        o.max_hold = some_limit(5);
        o.check_after = random_.one_of<clock::duration>({0s, 1s, 5s});
        o.check_timeout = 2s;
        o.create_timeout = random_.one_of<clock::duration>({3s, weir::forever});
        o.retry.initial = 500ms;
        o.retry.max = 3s;
        return o;
    }
    [[nodiscard]] clock::duration some_limit(std::int64_t seconds) {
        return random_.one_in(2) ? weir::forever : 1s * random_.between(1, seconds);
    }

    // The factory and the check.

    asio::awaitable<thing> begin_making() {
        auto const b = shop_.making;
        if (b.what == kind::throws_at_once) {
            last_attempt_failed_ = true;
            throw boost::system::system_error(workshop::failure);
        }
        return make(b);
    }

    asio::awaitable<thing> make(behaviour b) {
        thing one(shop_.all);
        ++making_;
        std::exception_ptr failure;
        try {
            co_await workshop::act(b);
        } catch (...) {
            failure = std::current_exception();
        }
        --making_;
        last_attempt_failed_ = failure != nullptr;
        if (failure)
            std::rethrow_exception(failure);
        things_[one.number()] = {.made = clock::now(), .rested_since = clock::now()};
        co_return one;
    }

    asio::awaitable<bool> check(thing& one, behaviour b) {
        auto& past = things_.at(one.number());
        BOOST_TEST_REQUIRE(!past.out);
        BOOST_TEST_REQUIRE((clock::now() - past.rested_since >= options_.check_after));
        past.out = true;
        bool const passes = b.what != kind::fails;
        if (b.what == kind::throws_at_once)
            throw std::runtime_error("a check");
        if (b.what == kind::fails)
            b.what = kind::works;
        co_await workshop::act(b);
        past.out = false;
        if (passes) {
            past.proven = true;
            past.rested_since = clock::now();
        }
        co_return passes;
    }

    // Actions.

    void act() {
        switch (random_.between(1, 12)) {
            case 1:
            case 2:
            case 3:
                return ask();
            case 4:
            case 5:
            case 6:
                return random_.one_in(4) ? give_back(true) : give_back(false);
            case 7:
            case 8:
            case 9: {
                auto const longest = random_.one_of<clock::duration>({100ms, 2s, 20s});
                run_for(ctx_, clock::duration(random_.between(0, longest.count())));
                return;
            }
            case 10:
                shop_.making = some_behaviour();
                shop_.checking = some_behaviour();
                return;
            case 11:
                return cancel_one();
            default:
                if (random_.one_in(3))
                    trim();
                else if (random_.one_in(2))
                    configure();
                else if (random_.one_in(2))
                    try_now();
                else if (random_.one_in(4))
                    cancel_all();
        }
    }

    behaviour some_behaviour() {
        return {.what = random_.one_of({kind::works, kind::works, kind::works, kind::fails,
                                        kind::throws_at_once, kind::hangs}),
                .takes = random_.one_of<clock::duration>({0s, 0s, 300ms, 2500ms})};
    }

    void ask() {
        auto& r = requests_.emplace_back();
        r.number = next_++;
        r.asked = clock::now();
        auto const patience = random_.one_of<clock::duration>({0s, 200ms, 2s, 30s, weir::forever});
        r.patience_ends = patience == weir::forever ? deadline::max() : r.asked + patience;
        pool_->async_checkout(
            patience, asio::bind_cancellation_slot(
                          r.signal->slot(), [this, &r](weir::error_code ec, thing_lease lease) {
                              completed(r, ec, std::move(lease));
                          }));
    }

    void completed(request& r, weir::error_code ec, thing_lease lease) {
        BOOST_TEST_REQUIRE(!r.over);
        r.over = true;
        auto const now = clock::now();
        if (!ec) {
            // Requests are served in arrival order.
            for (auto const& other : requests_)
                BOOST_TEST_REQUIRE((other.over || other.number > r.number || other.cancelled));
            BOOST_TEST_REQUIRE((now <= r.patience_ends));
            return given(std::move(lease));
        }
        BOOST_TEST_REQUIRE(!lease);
        if (ec == weir::errc::timed_out) {
            BOOST_TEST_REQUIRE((now >= r.patience_ends));
            BOOST_TEST_REQUIRE((now <= r.patience_ends + tolerance));
            // A request without patience is rejected before the factory can fail.
            if (r.patience_ends != r.asked)
                BOOST_TEST_REQUIRE(bool(lease.failure()) == last_attempt_failed_);
        } else if (ec == asio::error::operation_aborted) {
            BOOST_TEST_REQUIRE(r.cancelled);
        } else {
            BOOST_TEST_REQUIRE(ec == weir::errc::closed);
            BOOST_TEST_REQUIRE(closed_);
        }
    }

    void given(thing_lease lease) {
        auto& past = things_.at(lease->number());
        BOOST_TEST_REQUIRE(!past.out);
        past.out = true;
        lease->begin_use();
        auto const now = clock::now();
        if (options_.max_age != weir::forever)
            BOOST_TEST_REQUIRE((now - past.made < options_.max_age));
        if (checks_ && now - past.rested_since >= options_.check_after)
            BOOST_TEST_REQUIRE((past.proven && now == past.rested_since));
        leases_.push_back(std::move(lease));
    }

    void try_now() {
        bool const waits = std::ranges::any_of(requests_, [](auto const& r) { return !r.over; });
        weir::error_code ec;
        auto lease = pool_->try_checkout(ec);
        BOOST_TEST_REQUIRE(bool(lease) == !ec);
        if (!lease)
            return;
        BOOST_TEST_REQUIRE(!waits);
        given(std::move(lease));
    }

    void give_back(bool broken) {
        if (leases_.empty())
            return;
        auto const i = random_.index_in(leases_);
        auto lease = std::move(leases_[i]);
        leases_.erase(leases_.begin() + static_cast<std::ptrdiff_t>(i));
        auto& past = things_.at(lease->number());
        past.out = past.proven = false;
        past.rested_since = clock::now();
        lease->end_use();
        broken ? lease.discard() : lease.checkin();
    }

    void trim() {
        pool_->trim();
        check_trimmed();
    }

    void configure() {
        auto next = some_options();
        if (random_.one_in(2)) {  // only the size
            auto const [min, max] = std::pair(next.min, next.max);
            next = options_;
            next.min = min;
            next.max = max;
        }
        if (!measures_idle_times(options_) && measures_idle_times(next)) {
            for (auto& [number, past] : things_)
                past.rested_since = clock::now();
        }
        options_ = next;
        most_ = std::max(most_, next.max);
        pool_->configure(next);
        check_trimmed();
        auto const s = pool_->stats();
        BOOST_TEST_REQUIRE((s.idle == 0 || s.idle + s.in_use + s.being_checked <= next.max));
    }

    [[nodiscard]] bool measures_idle_times(weir::pool_options const& o) const {
        return checks_ || o.max_age != weir::forever || o.max_idle != weir::forever;
    }

    // No idle object is too old, and none beyond `min` was idle for too long.
    void check_trimmed() {
        auto const now = clock::now();
        auto const s = pool_->stats();
        bool const spare = s.idle + s.in_use + s.being_checked + s.being_created > options_.min;
        for (auto const& [number, past] : things_) {
            if (past.out)
                continue;
            BOOST_TEST_REQUIRE((now - past.made < options_.max_age));
            BOOST_TEST_REQUIRE((!spare || now - past.rested_since < options_.max_idle));
        }
    }

    void cancel_one() {
        if (requests_.empty())
            return;
        auto& r = requests_[random_.index_in(requests_)];
        r.cancelled = true;
        r.signal->emit(asio::cancellation_type::terminal);
    }

    void cancel_all() {
        for (auto& r : requests_)
            r.cancelled = true;
        pool_->cancel();
    }

    // Checks the invariants that hold when no step is due.
    void look() {
        BOOST_TEST_REQUIRE(shop_.all->max <= most_);
        auto const s = pool_->stats();
        auto const objects = s.idle + s.in_use + s.being_checked;
        BOOST_TEST_REQUIRE(s.in_use == static_cast<weir::amount>(leases_.size()));
        BOOST_TEST_REQUIRE(objects + making_ == shop_.all->alive);
        BOOST_TEST_REQUIRE(objects + s.being_created <= most_);
        most_ = std::max(options_.max, objects + s.being_created);
        shop_.all->max = shop_.all->alive.load();
        BOOST_TEST_REQUIRE(making_ <= s.being_created);
        BOOST_TEST_REQUIRE(s.created == static_cast<std::uint64_t>(objects) + s.discarded +
                                            s.unhealthy + s.retired);
        auto const waiting =
            std::ranges::count_if(requests_, [](auto const& r) { return !r.over; });
        BOOST_TEST_REQUIRE(s.requests.waiting == static_cast<std::uint64_t>(waiting));
        if (waiting != 0) {
            // No available object is withheld from a waiting request.
            auto const under_way = s.being_created + s.being_checked;
            auto const possible = options_.max - s.in_use;
            if (last_attempt_failed_)
                BOOST_TEST_REQUIRE(under_way >= std::min<weir::amount>(1, possible));
            else
                BOOST_TEST_REQUIRE(under_way >= std::min<weir::amount>(waiting, possible));
            BOOST_TEST_REQUIRE(s.idle <= most_ - s.in_use - under_way);
            if (!checks_)
                BOOST_TEST_REQUIRE(s.idle == 0);
            else if (s.idle != 0)
                BOOST_TEST_REQUIRE(s.being_checked >= waiting);
        } else if (making_ == 0 && s.being_checked == 0) {
            // No timer runs, and the context has no work.
            BOOST_TEST_REQUIRE(s.being_created == 0);
            BOOST_TEST_REQUIRE(ctx_.stopped());
            BOOST_TEST_REQUIRE((weir::testing::next_expiry(ctx_) == clock::time_point::max()));
        }
    }

    void finish() {
        shop_.making = shop_.checking = {};
        bool drained = false;
        switch (random_.between(1, 4)) {
            case 1:  // waiting requests are served
                pool_->shutdown();
                pool_->async_drain([&](weir::error_code ec) { drained = !ec; });
                for (int i = 0; i != 1000 && !drained; ++i) {
                    give_back(random_.one_in(3));
                    run_for(ctx_, 10s);  // an attempt can hang for an hour
                }
                BOOST_TEST_REQUIRE(drained);
                BOOST_TEST_REQUIRE(leases_.empty());
                closed_ = true;
                pool_->close();
                break;
            case 2:
                closed_ = true;
                pool_->close();
                settle(ctx_);
                while (!leases_.empty())
                    give_back(false);
                break;
            case 3:
                closed_ = true;
                pool_.reset();
                settle(ctx_);
                while (!leases_.empty())
                    give_back(random_.one_in(3));
                break;
            default:
                closed_ = true;
                while (!leases_.empty())
                    give_back(false);
                pool_.reset();
        }
        run_for(ctx_, 1min);
        while (!leases_.empty())  // granted before the end
            give_back(false);
        for (auto const& r : requests_)
            BOOST_TEST_REQUIRE(r.over);
        BOOST_TEST_REQUIRE(shop_.all->alive == 0);
        BOOST_TEST_REQUIRE(ctx_.stopped());
    }

    random_source& random_;
    std::deque<request> requests_;  // their signals outlive the context
    std::map<int, history> things_;
    asio::io_context ctx_;
    workshop shop_;
    weir::pool_options options_;
    weir::amount most_ =
        0;  // objects, since the last check: `max`, or more after a change to a lower one
    bool checks_ = false;
    bool closed_ = false;
    bool last_attempt_failed_ = false;
    int making_ = 0;  // coroutines of the factory that have not ended
    std::optional<thing_pool> pool_;
    std::vector<thing_lease> leases_;
    std::uint64_t next_ = 0;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(pool_random)

BOOST_AUTO_TEST_CASE(follows_the_oracle_in_random_schedules, *boost::unit_test::label("whole")) {
    for_each_seed(1, 3000, [](random_source& random) { schedule(random).play(); });
}

BOOST_AUTO_TEST_SUITE_END()
