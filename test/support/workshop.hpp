#pragma once

#include <weir/pool.hpp>
#include <weir/testing.hpp>

#include "support/printing.hpp"
#include "support/virtual_limiters.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/system/system_error.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

// The objects of tests of pools: they count themselves.

namespace support {

/// The number of things. A thing counts from the beginning of its construction.
struct census {
    std::atomic<int> alive = 0;
    std::atomic<int> max = 0;
    std::atomic<int> begun = 0;
    std::function<void(int number)> on_death;  // called by each destructor
};

/// An object of a pool. It can only be moved, and has a number, from 1 on.
class thing {
public:
    explicit thing(std::shared_ptr<census> c) : it_(std::make_unique<body>(std::move(c))) {}
    thing(thing&&) noexcept = default;
    thing& operator=(thing&&) = delete;

    [[nodiscard]] int number() const { return it_->number; }

    /// Checks that no other thread is using it.
    void begin_use() const {
        if (it_->used.exchange(true))
            throw std::logic_error("a thing is used by two");
    }
    void end_use() const { it_->used = false; }

private:
    struct body {
        explicit body(std::shared_ptr<census> c) : all(std::move(c)), number(++all->begun) {
            int const now = ++all->alive;
            int most = all->max;
            while (most < now && !all->max.compare_exchange_weak(most, now)) {}
        }
        body(body const&) = delete;
        body& operator=(body const&) = delete;
        ~body() {
            if (all->on_death)
                all->on_death(number);
            --all->alive;
        }

        std::shared_ptr<census> all;
        int number;
        std::atomic<bool> used = false;
    };

    std::unique_ptr<body> it_;
};

using thing_pool = weir::testing::pool<thing>;
using thing_lease = weir::lease<thing>;

/// The behaviour of a factory or a check.
struct behaviour {
    enum class kind { works, fails, throws_at_once, hangs, hangs_deaf };
    kind what = kind::works;
    clock::duration takes = 0s;
};

/// Makes things and checks them, by plan.
struct workshop {
    using kind = behaviour::kind;

    explicit workshop(behaviour how_to_make = {}, behaviour how_to_check = {})
        : making(how_to_make), checking(how_to_check) {}

    std::shared_ptr<census> all = std::make_shared<census>();
    behaviour making;
    behaviour checking;
    int checks = 0;

    /// The exception of a failing one.
    static constexpr auto failure = asio::error::connection_refused;

    static asio::awaitable<void> act(behaviour b) {
        if (b.what == kind::hangs || b.what == kind::hangs_deaf)
            b.takes = 1h;
        if (b.takes != 0s) {
            if (b.what == kind::hangs_deaf)
                co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
            weir::testing::timer time(co_await asio::this_coro::executor, b.takes);
            co_await time.async_wait(asio::deferred);
        }
        if (b.what == kind::fails)
            throw boost::system::system_error(failure);
    }

    [[nodiscard]] auto maker() {
        return [this]() -> asio::awaitable<thing> {
            if (making.what == kind::throws_at_once)
                throw boost::system::system_error(failure);
            return make(all, making);
        };
    }
    [[nodiscard]] auto checker() {
        return [this](thing& one) -> asio::awaitable<bool> {
            ++checks;
            if (checking.what == kind::throws_at_once)
                throw boost::system::system_error(failure);
            return check(one, checking);
        };
    }

private:
    static asio::awaitable<thing> make(std::shared_ptr<census> all, behaviour b) {
        thing one(std::move(all));
        co_await act(b);
        co_return one;
    }
    static asio::awaitable<bool> check(thing& one, behaviour b) {
        one.begin_use();
        struct guard {
            explicit guard(thing& t) : used(t) {}
            guard(guard const&) = delete;
            guard& operator=(guard const&) = delete;
            ~guard() { used.end_use(); }
            thing& used;
        } const until_the_end(one);
        if (b.what == kind::fails) {
            b.what = kind::works;
            co_await act(b);
            co_return false;
        }
        co_await act(b);
        co_return true;
    }
};

/// A checkout that is made with a callback, and its outcome.
class order {
    struct record {
        int calls = 0;
        weir::error_code error;
        thing_lease given;
        clock::time_point at;
    };

public:
    class handler {
    public:
        handler(handler&&) = default;
        void operator()(weir::error_code ec, thing_lease given) {
            ++what_->calls;
            what_->error = ec;
            what_->given = std::move(given);
            what_->at = clock::now();
        }

    private:
        friend order;
        explicit handler(std::shared_ptr<record> what) noexcept : what_(std::move(what)) {}

        std::shared_ptr<record> what_;
    };

    order() = default;
    explicit order(thing_pool& pool, weir::patience wait = {}) {
        pool.async_checkout(wait, callback());
    }

    [[nodiscard]] handler callback() const { return handler(record_); }

    [[nodiscard]] bool waiting() const { return record_->calls == 0 && record_.use_count() > 1; }
    [[nodiscard]] bool dropped() const { return record_->calls == 0 && record_.use_count() == 1; }
    [[nodiscard]] bool over() const { return record_->calls == 1 && record_.use_count() == 1; }
    [[nodiscard]] bool rejected(weir::error_code ec) const {
        return over() && record_->error == ec && !record_->given;
    }
    [[nodiscard]] bool rejected(weir::errc e) const { return rejected(make_error_code(e)); }
    /// The number of the thing; 0 if there is none.
    [[nodiscard]] int number() const {
        return over() && record_->given ? record_->given->number() : 0;
    }
    [[nodiscard]] thing_lease& given() const { return record_->given; }
    [[nodiscard]] clock::time_point at() const { return record_->at; }

    /// The error of the factory, as a code; none if it succeeded.
    [[nodiscard]] weir::error_code failure() const {
        auto const why = record_->given.failure();
        try {
            if (why)
                std::rethrow_exception(why);
        } catch (boost::system::system_error const& e) {
            return e.code();
        }
        return {};
    }

private:
    std::shared_ptr<record> record_ = std::make_shared<record>();
};

/// Gives the pool `objects` idle objects, checked in at the same time in the order of their numbers.
inline void fill(thing_pool& pool, asio::io_context& ctx, int objects) {
    std::vector<order> orders;
    for (int i = 0; i != objects; ++i)
        orders.emplace_back(pool);
    settle(ctx);
    for (int number = 1; number <= objects; ++number) {
        for (auto& one : orders) {
            if (one.number() == number)
                one.given().checkin();
        }
    }
    BOOST_TEST_REQUIRE(pool.stats().idle == objects);
}

/// Returns the number of the thing that the next request uses; 0 if none is idle.
inline int next_number(thing_pool& pool) {
    auto const lease = pool.try_checkout();
    return lease ? lease->number() : 0;
}

}  // namespace support
