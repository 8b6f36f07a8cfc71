#include <weir/keyed.hpp>
#include <weir/limiter.hpp>
#include <weir/policy/all.hpp>
#include <weir/policy/any.hpp>
#include <weir/testing.hpp>

#include "support/nightly.hpp"
#include "support/random.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

// Compares one keyed limiter with one plain limiter per key; plain limiters are never forgotten. After the same calls,
// each decision and each `retry_after` must be equal. All limiters are created at the same instant.

namespace asio = boost::asio;
using namespace std::chrono_literals;
using support::random_source;
using weir::amount;
using weir::duration;
using weir::error_code;
using weir::permit;
using weir::rate;
using weir::testing::clock;

namespace {

using executor = asio::io_context::executor_type;
using timer = weir::testing::basic_timer<executor>;

// Random options of a policy.
template <class Policy>
struct some;

template <>
struct some<weir::policy::seats> {
    static weir::seats_options options(random_source& r) { return {.seats = r.between(1, 4)}; }
};
template <>
struct some<weir::policy::sliding_log> {
    static weir::sliding_log_options options(random_source& r) {
        return {.limit = r.between(1, 4), .window = duration(r.between(1, 50'000))};
    }
};
template <>
struct some<weir::policy::sliding_window> {
    static weir::sliding_window_options options(random_source& r) {
        return {.limit = r.between(1, 4),
                .window = duration(r.between(10, 50'000)),
                .slices = r.between(1, 5)};
    }
};
template <>
struct some<weir::policy::fixed_window> {
    static weir::fixed_window_options options(random_source& r) {
        return {.limit = r.between(1, 4),
                .window = duration(r.between(1, 50'000)),
                .alignment =
                    r.one_of({weir::window_alignment::first_use, weir::window_alignment::epoch})};
    }
};
weir::carry_over some_carry_over(random_source& r) {
    return r.one_of(
        {weir::carry_over::as_is, weir::carry_over::proportional, weir::carry_over::reset});
}
template <>
struct some<weir::policy::token_bucket> {
    static weir::token_bucket_options options(random_source& r) {
        auto const burst = r.between(1, 5);
        weir::token_bucket_options o{
            .rate = rate{r.between(0, 3), duration(r.between(1, 20'000))},
            .burst = burst,
            .refill = r.one_of({weir::refill::continuous, weir::refill::interval}),
            .carry_over = some_carry_over(r)};
        if (r.one_in(3))
            o.initial = r.between(0, burst);
        return o;
    }
};
template <>
struct some<weir::policy::leaky_bucket> {
    static weir::leaky_bucket_options options(random_source& r) {
        return {.rate = rate{r.between(1, 3), duration(r.between(1, 20'000))},
                .capacity = r.between(1, 4),
                .carry_over = some_carry_over(r)};
    }
};
template <>
struct some<weir::policy::smooth_bursty> {
    static weir::smooth_bursty_options options(random_source& r) {
        return {.rate = rate{r.between(1, 3), duration(r.between(1, 20'000))},
                .max_burst = duration(r.between(0, 60'000)),
                .initial = duration(r.one_of({0, 0, 30'000})),
                .carry_over = some_carry_over(r)};
    }
};
template <>
struct some<weir::policy::smooth_warming_up> {
    static weir::smooth_warming_up_options options(random_source& r) {
        return {.rate = rate{r.between(1, 3), duration(r.between(1, 20'000))},
                .warm_up = duration(r.between(0, 60'000)),
                .cold_factor = 3,
                .carry_over = some_carry_over(r)};
    }
};
using both = weir::policy::all<weir::policy::token_bucket, weir::policy::seats>;
template <>
struct some<both> {
    static both::options_type options(random_source& r) {
        return {some<weir::policy::token_bucket>::options(r),
                some<weir::policy::seats>::options(r)};
    }
};
// All of one structure, because `configure` cannot change it.
template <>
struct some<weir::policy::any> {
    static weir::limiter_config options(random_source& r) {
        return weir::all_options({some<weir::policy::sliding_log>::options(r),
                                  some<weir::policy::leaky_bucket>::options(r)});
    }
};

// The result of a waiting request.
struct outcome {
    bool is_over = false;
    error_code error;
    permit granted;
};

template <class Policy>
class comparison {
    using plain_type = weir::basic_limiter<Policy, executor, timer>;
    using keyed_type = weir::basic_keyed<std::int32_t, Policy, executor, timer>;
    using options_type = typename Policy::options_type;

    struct held {
        std::int32_t key;
        permit plain;
        permit keyed;
    };
    struct waiting {
        std::int32_t key;
        outcome plain;
        outcome keyed;
        asio::cancellation_signal cancel_plain;
        asio::cancellation_signal cancel_keyed;
    };

public:
    comparison(random_source& random, std::int32_t keys)
        : random_(random),
          keys_(keys),
          options_(some<Policy>::options(random)),
          queueing_{.max_waiting = random.between(0, 4),
                    .full = random.one_of(
                        {weir::when_full::reject_newest, weir::when_full::evict_oldest}),
                    .tolerance = 0ns},
          keyed_(std::in_place, context_, options_,
                 weir::keyed_options{.max_keys = 1'000'000,
                                     .shards = random.one_of<std::uint32_t>({1, 2, 16})},
                 queueing_) {
        for (std::int32_t key = 0; key != keys_; ++key)
            plain_[key] = std::make_unique<plain_type>(context_, options_, queueing_);
    }

    void play(int operations) {
        for (int i = 0; i != operations; ++i) {
            something_happens();
            settle();
        }
        if (random_.one_in(2)) {
            keyed_->close();
            for (auto& [key, limiter] : plain_)
                limiter->close();
            settle();
        }
        held_.clear();
        if (random_.one_in(2))
            keyed_.reset();
        else
            check_stats();
    }

    [[nodiscard]] std::uint64_t forgotten() const noexcept { return forgotten_; }

private:
    plain_type& plain(std::int32_t key) { return *plain_.at(key); }

    // Some keys are frequent, most are rare.
    std::int32_t some_key() {
        return static_cast<std::int32_t>(
            random_.one_in(2) ? random_.between(0, 7) : random_.between(0, keys_ - 1));
    }
    amount some_amount() {
        return random_.one_in(12) ? 0 : random_.between(1, random_.one_in(6) ? 6 : 2);
    }

    void something_happens() {
        auto const what = random_.between(0, 99);
        if (what < 45)
            try_enter();
        else if (what < 60)
            enter();
        else if (what < 72)
            come_home();
        else if (what < 76)
            settle_permit();
        else if (what < 78)
            charge();
        else if (what < 80)
            cancel();
        else if (what < 81 && random_.one_in(20))
            configure_all();
        else if (what < 81 && random_.one_in(20))
            configure_queue();
        else if (what < 84)
            configure_one();
        else
            pass_time();
    }

    void try_enter() {
        auto const key = some_key();
        auto const n = some_amount();
        error_code ec;
        error_code keyed_ec;
        auto p = plain(key).try_enter(n, ec);
        auto k = keyed_->try_enter(key, n, keyed_ec);
        compare(ec, p, keyed_ec, k);
        BOOST_TEST_REQUIRE(plain(key).stats().remaining == keyed_->stats(key).remaining);
        BOOST_TEST_REQUIRE(plain(key).stats().debt == keyed_->stats(key).debt);
        keep(key, std::move(p), std::move(k));
    }

    void enter() {
        auto const key = some_key();
        auto const n = some_amount();
        auto const wait =
            random_.one_in(5) ? weir::forever : duration(random_.of_any_size(100'000));
        auto& w = *waiting_.emplace_back(std::make_unique<waiting>());
        w.key = key;
        auto const tell = [](outcome& o) {
            return [&o](error_code ec, permit p) {
                o.is_over = true;
                o.error = ec;
                o.granted = std::move(p);
            };
        };
        plain(key).async_enter(
            n, wait, asio::bind_cancellation_slot(w.cancel_plain.slot(), tell(w.plain)));
        keyed_->async_enter(key, n, wait,
                            asio::bind_cancellation_slot(w.cancel_keyed.slot(), tell(w.keyed)));
    }

    void come_home() {
        if (held_.empty())
            return;
        auto const i = random_.index_in(held_);
        auto h = std::move(held_[i]);
        held_[i] = std::move(held_.back());
        held_.pop_back();
        if (random_.one_in(3)) {
            h.plain.refund();
            h.keyed.refund();
        }
    }

    void settle_permit() {
        if (held_.empty())
            return;
        auto& h = held_[random_.index_in(held_)];
        if (random_.one_in(2)) {
            auto const n = some_amount();
            h.plain.settle(n);
            h.keyed.settle(n);
        } else {
            auto const n = random_.between(0, h.plain.count());
            auto p = h.plain.split(n);
            auto k = h.keyed.split(n);
            if (random_.one_in(2)) {
                h.plain.merge(std::move(p));
                h.keyed.merge(std::move(k));
            } else {
                keep(h.key, std::move(p), std::move(k));
            }
        }
    }

    void charge() {
        auto const key = some_key();
        auto const n = some_amount();
        auto p = plain(key).charge(n);
        auto k = keyed_->charge(key, n);
        keep(key, std::move(p), std::move(k));
    }

    void cancel() {
        if (waiting_.empty() || random_.one_in(4)) {
            auto const key = some_key();
            plain(key).cancel();
            keyed_->cancel(key);
        } else {
            auto& w = *waiting_[random_.index_in(waiting_)];
            w.cancel_plain.emit(asio::cancellation_type::total);
            w.cancel_keyed.emit(asio::cancellation_type::total);
        }
    }

    void configure_all() {
        options_ = some<Policy>::options(random_);
        keyed_->configure(options_);
        for (auto& [key, limiter] : plain_) {
            if (!own_.contains(key))
                limiter->configure(options_);
        }
    }

    void configure_queue() {
        auto const limit = random_.between(0, 4);
        auto const full =
            random_.one_of({weir::when_full::reject_newest, weir::when_full::evict_oldest});
        auto const change = [&](weir::queue_options& queue) {
            queue.max_waiting = limit;
            queue.full = full;
        };
        keyed_->configure_queue(change);
        for (auto& [key, limiter] : plain_)
            limiter->configure_queue(change);
    }

    void configure_one() {
        auto const key = some_key();
        auto& limiter = plain(key);
        if (own_.contains(key)) {
            own_.erase(key);
            keyed_->reset(key);
            limiter.configure(options_);
        } else if (random_.one_in(5)) {
            auto const& own = own_[key] = some<Policy>::options(random_);
            keyed_->configure(key, own);
            limiter.configure(own);
        }
    }

    void pass_time() {
        weir::testing::run_for(
            context_, duration(random_.one_in(10) ? random_.between(0, 1'000'000)
                                                  : random_.of_any_size(20'000)));
    }

    void settle() {
        weir::testing::run_for(context_, 0ns);
        for (std::size_t i = 0; i != waiting_.size();) {
            auto& w = *waiting_[i];
            BOOST_TEST_REQUIRE(w.plain.is_over == w.keyed.is_over);
            if (!w.plain.is_over) {
                ++i;
                continue;
            }
            compare(w.plain.error, w.plain.granted, w.keyed.error, w.keyed.granted);
            keep(w.key, std::move(w.plain.granted), std::move(w.keyed.granted));
            waiting_[i] = std::move(waiting_.back());
            waiting_.pop_back();
        }
        forgotten_ = std::max(forgotten_, plain_.size() - keyed_->stats().keys);
    }

    static void compare(error_code ec, permit const& p, error_code keyed_ec, permit const& k) {
        BOOST_TEST_REQUIRE(ec == keyed_ec);
        BOOST_TEST_REQUIRE(static_cast<bool>(p) == static_cast<bool>(k));
        BOOST_TEST_REQUIRE((p.retry_after() == k.retry_after()));
        BOOST_TEST_REQUIRE((p.waited() == k.waited()));
        BOOST_TEST_REQUIRE(p.count() == k.count());
        BOOST_TEST_REQUIRE(p.remaining() == k.remaining());
    }

    void keep(std::int32_t key, permit&& p, permit&& k) {
        if (p)
            held_.push_back({key, std::move(p), std::move(k)});
    }

    void check_stats() {
        weir::limiter_stats sum;
        for (auto& [key, limiter] : plain_) {
            auto const one = limiter->stats();
            sum.granted += one.granted;
            sum.permits_granted += one.permits_granted;
            sum.no_permit += one.no_permit;
            sum.timed_out += one.timed_out;
            sum.deadline_unreachable += one.deadline_unreachable;
            sum.queue_full += one.queue_full;
            sum.shed += one.shed;
            sum.cancelled += one.cancelled;
            sum.closed += one.closed;
            sum.waiting += one.waiting;
            sum.live += one.live;
            sum.in_use += one.in_use;
        }
        auto const all = keyed_->stats().total;
        BOOST_TEST(sum.granted == all.granted);
        BOOST_TEST(sum.permits_granted == all.permits_granted);
        BOOST_TEST(sum.no_permit == all.no_permit);
        BOOST_TEST(sum.timed_out == all.timed_out);
        BOOST_TEST(sum.deadline_unreachable == all.deadline_unreachable);
        BOOST_TEST(sum.queue_full == all.queue_full);
        BOOST_TEST(sum.shed == all.shed);
        BOOST_TEST(sum.cancelled == all.cancelled);
        BOOST_TEST(sum.closed == all.closed);
        BOOST_TEST(sum.waiting == all.waiting);
        BOOST_TEST(sum.live == all.live);
        BOOST_TEST(sum.in_use == all.in_use);
    }

    random_source& random_;
    std::int32_t keys_;
    asio::io_context context_;
    options_type options_;
    weir::queue_options queueing_;
    std::optional<keyed_type> keyed_;
    std::unordered_map<std::int32_t, std::unique_ptr<plain_type>> plain_;
    std::unordered_map<std::int32_t, options_type> own_;
    std::vector<std::unique_ptr<waiting>> waiting_;
    std::vector<held> held_;
    std::uint64_t forgotten_ = 0;
};

template <class Policy>
void compare() {
    std::uint64_t forgotten = 0;
    support::for_each_seed(1, support::is_nightly() ? 100 : 40, [&](random_source& random) {
        comparison<Policy> c(random, random.one_of({10, 300, 10'000}));
        c.play(1'000);
        forgotten += c.forgotten();
    });
    BOOST_TEST(forgotten > 0U);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(keyed_is_one_limiter_for_each_key)

BOOST_AUTO_TEST_CASE(of_seats) {
    compare<weir::policy::seats>();
}
BOOST_AUTO_TEST_CASE(of_sliding_log) {
    compare<weir::policy::sliding_log>();
}
BOOST_AUTO_TEST_CASE(of_sliding_window) {
    compare<weir::policy::sliding_window>();
}
BOOST_AUTO_TEST_CASE(of_fixed_window) {
    compare<weir::policy::fixed_window>();
}
BOOST_AUTO_TEST_CASE(of_token_bucket) {
    compare<weir::policy::token_bucket>();
}
BOOST_AUTO_TEST_CASE(of_leaky_bucket) {
    compare<weir::policy::leaky_bucket>();
}
BOOST_AUTO_TEST_CASE(of_smooth_bursty) {
    compare<weir::policy::smooth_bursty>();
}
BOOST_AUTO_TEST_CASE(of_smooth_warming_up) {
    compare<weir::policy::smooth_warming_up>();
}
BOOST_AUTO_TEST_CASE(of_all) {
    compare<both>();
}
BOOST_AUTO_TEST_CASE(of_any) {
    compare<weir::policy::any>();
}

BOOST_AUTO_TEST_SUITE_END()
