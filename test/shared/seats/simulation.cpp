#include <weir/shared/memory_store.hpp>
#include <weir/shared/seats.hpp>
#include <weir/testing.hpp>

#include "support/nightly.hpp"
#include "support/random.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// Random schedules of several processes that share seats at one store, in virtual time. Questions and replies are lost,
// late or out of order, processes die or are suspended, and the store loses its data or its clock is set. Each process
// has its own context. In half of the schedules the store sends messages, which are lost and late, too. At any time, no
// more seats are in use than exist. Seats whose holders would detect the loss if they looked do not count. Each holder that loses a seat is notified.

namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using support::random_source;
using weir::amount;
using weir::duration;
using weir::testing::clock;
using weir::testing::timer;
using seats = weir::basic_shared_seats<asio::any_io_executor, timer>;

// The possible faults in a schedule.
struct hazards {
    duration way = 1ms;  // the longest, of most messages
    int one_in = 0;      // one in N messages is late or lost, or cannot be sent; 0: none
    bool loses = false;  // the store loses its data, or its clock is set forward
    bool sets_back = false;
    bool kills = false;    // a process dies, and another one starts in its place
    bool stops = false;    // a process is suspended for some time
    bool listens = false;  // the store sends messages
};

// Where the messages of the store go.
struct mailbox {
    virtual void post(weir::policy::fed_seats::notice const& what) = 0;

protected:
    ~mailbox() = default;
};

struct server {
    asio::io_context ctx;
    std::map<std::uint64_t, std::weak_ptr<mailbox>> mailboxes;  // by channel
    weir::detail::bucket_ledger ledger;
    std::chrono::microseconds offset = std::chrono::hours(24 * 365);

    [[nodiscard]] std::int64_t now() const {
        return std::chrono::floor<std::chrono::microseconds>(clock::now().time_since_epoch())
                   .count() +
               offset.count();
    }
    weir::store::seats_answer hold(std::string const& name, weir::store::seats_question const& q) {
        std::vector<weir::policy::fed_seats::notice> messages;
        auto const said = ledger.hold(name, q, now(), messages);
        for (auto const& m : messages) {
            if (auto const to = mailboxes[m.channel].lock())
                to->post(m);
        }
        return said;
    }
    template <class F>
    void after(duration d, F f) {
        auto const t = std::make_shared<timer>(ctx);
        t->expires_after(d);
        t->async_wait([t, f = std::move(f)](weir::error_code ec) mutable {
            if (!ec)
                f();
        });
    }
};

// The connection of one process to the server. An arriving message waits until the process runs.
class line final : public weir::store, public mailbox, public std::enable_shared_from_this<line> {
public:
    line(server& s, random_source& random, hazards const& what)
        : server_(s), random_(random), what_(what) {}

    void belongs_to(asio::io_context* process) { process_ = process; }

    void async_take(std::string const&, question const&, answer_handler) override {}
    void async_give_back(std::string const&, give_back const&) override {}
    [[nodiscard]] bool keeps_seats() const noexcept override { return true; }

    void async_hold(std::string const& name, seats_question const& q,
                    seats_handler handler) override {
        auto const self = shared_from_this();
        if (goes_wrong() && random_.one_in(3))
            return tell(std::move(handler), asio::error::connection_refused, {});
        auto asked = q;
        if (what_.listens && !random_.one_in(8)) {
            asked.channel = q.holder[0] | 1;
            server_.mailboxes[asked.channel] = weak_from_this();
        }
        on_the_way([self, name, asked, handler = std::move(handler)]() mutable {
            auto const said = self->server_.hold(name, asked);
            bool const breaks = self->goes_wrong() && self->random_.one_in(3);
            self->on_the_way([self, said, breaks, handler = std::move(handler)]() mutable {
                if (breaks)
                    self->tell(std::move(handler), asio::error::connection_reset, {.lost = true});
                else
                    self->tell(std::move(handler), {}, said);
            });
        });
    }

    void listen(weir::policy::fed_seats::holder_id const&,
                std::weak_ptr<seats_listener> to) override {
        listener_ = std::move(to);
    }
    void post(weir::policy::fed_seats::notice const& what) override {
        on_the_way([self = shared_from_this(), what] {
            if (!self->process_)
                return;
            asio::post(*self->process_, [self, what] {
                if (auto const l = self->listener_.lock())
                    l->receive(what);
            });
        });
    }

private:
    [[nodiscard]] bool goes_wrong() { return what_.one_in != 0 && random_.one_in(what_.one_in); }

    void tell(seats_handler handler, weir::error_code ec, seats_answer const& said) {
        if (process_)
            asio::post(*process_, [handler = std::move(handler), ec, said]() mutable {
                std::move(handler)(ec, said);
            });
    }

    // Or never.
    template <class F>
    void on_the_way(F f) {
        auto way = duration(random_.between(0, what_.way.count()));
        if (goes_wrong()) {
            if (random_.one_in(3))
                return;
            way = duration(random_.between(0, duration(700ms).count()));
        }
        server_.after(way, std::move(f));
    }

    server& server_;
    random_source& random_;
    hazards what_;
    asio::io_context* process_ = nullptr;
    std::weak_ptr<seats_listener> listener_;
};

class world {
    // A permit, and the known state of its loss.
    struct seat {
        weir::permit permit;
        std::shared_ptr<bool> is_told = std::make_shared<bool>(false);
    };
    struct process {
        std::unique_ptr<asio::io_context> ctx = std::make_unique<asio::io_context>();
        std::shared_ptr<line> way;
        std::unique_ptr<seats> limiter;
        std::vector<seat> used;
        clock::time_point stopped_until{};

        process() = default;
        process(process&&) = default;
        process& operator=(process&&) = default;
        ~process() { die(); }
        void die() {
            if (way)
                way->belongs_to(nullptr);
            ctx.reset();
            limiter.reset();
            used.clear();
        }
        [[nodiscard]] bool runs() const { return stopped_until <= clock::now(); }
    };

public:
    world(random_source& random, weir::shared_seats_options const& options, hazards const& what)
        : random_(random),
          options_(options),
          what_(what),
          processes_(static_cast<std::size_t>(random.between(2, 10))) {
        for (auto& p : processes_)
            begin(p);
    }

    void run(int steps) {
        for (; steps != 0; --steps) {
            happen();
            pass(duration(
                random_.between(0, (options_.lease / (random_.one_in(8) ? 1 : 20)).count())));
        }
    }

    // No more faults: all seats are free in the end, and each process can get all of them.
    void end() {
        for (auto& p : processes_) {
            p.stopped_until = {};
            p.used.clear();
        }
        is_ending_ = true;
        pass(5 * options_.lease + 5 * options_.poll + 5s);
        auto const held = server_.ledger.held("seats", server_.now());
        BOOST_TEST_REQUIRE(held == 0);
    }

    [[nodiscard]] int granted() const { return granted_; }
    [[nodiscard]] int lost() const { return lost_; }

private:
    void begin(process& p) {
        p.die();
        p = process();
        p.way = std::make_shared<line>(server_, random_, what_);
        p.way->belongs_to(p.ctx.get());
        p.limiter = std::make_unique<seats>(*p.ctx, p.way, "seats", options_);
    }

    void happen() {
        auto& p = processes_[random_.index_in(processes_)];
        if (random_.one_in(40) && what_.kills)
            return begin(p);
        if (random_.one_in(20) && what_.stops) {
            p.stopped_until =
                clock::now() + duration(random_.between(0, 2 * options_.lease.count()));
            return;
        }
        if (random_.one_in(60) && what_.sets_back) {
            has_gone_back_ = true;
            server_.offset -= std::chrono::microseconds(random_.of_any_size(20'000'000));
            return;
        }
        if (random_.one_in(60) && what_.loses) {
            lost_state_ = clock::now();
            if (random_.one_in(2)) {
                has_forgotten_ = true;
                return server_.ledger.forget();
            }
            server_.offset += std::chrono::microseconds(random_.of_any_size(20'000'000));
            return;
        }
        if (!p.runs())
            return;
        if (random_.one_in(2) && !p.used.empty()) {
            p.used.erase(p.used.begin() + static_cast<std::ptrdiff_t>(random_.index_in(p.used)));
            return;
        }
        for (auto crowd = random_.one_in(4) ? random_.between(1, 4) : 1; crowd != 0; --crowd)
            enter(p);
    }

    void enter(process& p) {
        auto const n = random_.one_in(2) ? 1 : random_.between(1, options_.seats);
        auto const patience = duration(random_.between(0, 2 * options_.lease.count()));
        p.limiter->async_enter(n, patience, [this, &p](weir::error_code ec, weir::permit given) {
            if (ec)
                return;
            ++granted_;
            if (is_ending_)
                return;
            check_fence(given);
            auto& one = p.used.emplace_back();
            one.permit = std::move(given);
            p.limiter->async_wait_lost(one.permit, [this, told = one.is_told](weir::error_code e) {
                *told = !e;
                lost_ += !e;
            });
            check();
        });
    }

    // With one seat, each holding has a greater fencing token than all before, unless the store has lost its data.
    void check_fence(weir::permit const& given) {
        auto const fence = given.id();
        BOOST_TEST_REQUIRE(fence != 0u);
        bool const is_excused = has_just_lost_state() || (has_forgotten_ && has_gone_back_);
        if (options_.seats == 1 && !is_excused)
            BOOST_TEST_REQUIRE(fence >= newest_fence_);
        newest_fence_ = fence;
    }
    [[nodiscard]] bool has_just_lost_state() const {
        return lost_state_ != clock::time_point::min() &&
               clock::now() - lost_state_ <= options_.lease;
    }

    // Suspended processes use nothing; as soon as they look, lost seats do not count.
    void check() {
        amount sum = 0;
        for (auto const& p : processes_) {
            if (!p.runs())
                continue;
            for (auto const& s : p.used)
                sum += s.permit.lost() ? 0 : s.permit.count();
        }
        bool const is_excused =
            lost_state_ != clock::time_point::min() && clock::now() - lost_state_ <= options_.lease;
        BOOST_TEST_REQUIRE((sum <= options_.seats || is_excused),
                           sum << " of " << options_.seats << " seats are in use");
    }
    // Each running process has been notified by now.
    void check_that_all_are_told() {
        for (auto const& p : processes_) {
            if (!p.runs())
                continue;
            for (auto const& s : p.used)
                BOOST_TEST_REQUIRE(*s.is_told == s.permit.lost());
        }
    }

    // Runs all events within `d`, in the order of time.
    void pass(duration d) {
        auto const until = clock::now() + d;
        for (;;) {
            settle();
            check();
            check_that_all_are_told();
            auto next = weir::testing::next_expiry(server_.ctx);
            for (auto const& p : processes_) {
                if (!p.runs())
                    next = std::min(next, p.stopped_until);
                else
                    next = std::min(next, weir::testing::next_expiry(*p.ctx));
            }
            if (next > until)
                break;
            clock::advance_to(next);
        }
        clock::advance_to(until);
    }

    void settle() {
        for (std::size_t done = 1; done != 0;) {
            done = turn(server_.ctx);
            for (auto& p : processes_) {
                if (p.runs())
                    done += turn(*p.ctx);
            }
        }
    }
    static std::size_t turn(asio::io_context& ctx) {
        weir::testing::fire_due(ctx);
        ctx.restart();
        return ctx.poll();
    }

    random_source& random_;
    weir::shared_seats_options options_;
    hazards what_;
    server server_;
    std::vector<process> processes_;
    std::uint64_t newest_fence_ = 0;
    bool is_ending_ = false;
    clock::time_point lost_state_ = clock::time_point::min();
    bool has_forgotten_ = false;
    bool has_gone_back_ = false;
    int granted_ = 0;
    int lost_ = 0;
};

hazards some_hazards(random_source& random) {
    return {.way = random.one_of<duration>({0ms, 1ms, 10ms, 40ms}),
            .one_in = random.one_of({0, 0, 5, 30}),
            .loses = random.one_in(4),
            .sets_back = random.one_in(4),
            .kills = random.one_in(3),
            .stops = random.one_in(2),
            .listens = random.one_in(2)};
}

weir::shared_seats_options some_options(random_source& random) {
    auto const lease = random.one_of<duration>({100ms, 600ms, 5s});
    return {.seats = random.one_of<amount>({1, 1, 2, 3, 7}),
            .lease = lease,
            .timeout = std::min<duration>(random.one_of<duration>({2ms, 50ms}), lease / 6),
            .poll = random.one_of<duration>({std::max<duration>(lease / 50, 2ms), 20ms, 1s})};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(shared_seats_simulation)

BOOST_AUTO_TEST_CASE(seats_in_use_never_exceed_the_number_and_losses_are_reported) {
    int worlds = 0;
    int granted = 0;
    int lost = 0;
    support::for_each_seed(1, support::is_nightly() ? 1'500 : 500, [&](random_source& random) {
        world w(random, some_options(random), some_hazards(random));
        w.run(100);
        w.end();
        ++worlds;
        granted += w.granted();
        lost += w.lost();
    });
    if (worlds != 1) {  // not one alone
        BOOST_TEST(granted >= 10 * worlds);
        BOOST_TEST(lost >= worlds / 2);
    }
    BOOST_TEST_MESSAGE(granted << " grants, " << lost << " losses");
}

BOOST_AUTO_TEST_CASE(without_faults_nothing_is_lost) {
    support::for_each_seed(1, 50, [](random_source& random) {
        auto options = some_options(random);
        options.timeout = options.lease / 6;
        world w(random, options, {.way = 1ms, .listens = random.one_in(2)});
        w.run(200);
        w.end();
        BOOST_TEST(w.lost() == 0);
        BOOST_TEST(w.granted() != 0);
    });
}

BOOST_AUTO_TEST_SUITE_END()
