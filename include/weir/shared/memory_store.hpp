#pragma once

#include <weir/detail/revocable_executor.hpp>
#include <weir/error.hpp>
#include <weir/limiter.hpp>
#include <weir/shared/seat_ledger.hpp>
#include <weir/shared/store.hpp>
#include <weir/time.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace weir::inline v0_2 {

namespace detail {

/// A sliding log, as a store keeps it.
class sliding_log_row {
public:
    store::answer take(store::question const& q, std::int64_t now);
    void give_back(store::give_back const& what, std::int64_t now);

private:
    [[nodiscard]] amount size() const noexcept { return static_cast<amount>(grants_.size()); }

    // The log has its own time, which continues when the clock is set back.
    std::int64_t at_ = 0;     // the time of the last question
    std::int64_t ahead_ = 0;  // the time by which it is ahead of the clock
    std::deque<std::int64_t> grants_;
};

/// Buckets, logs and seats by name, and the operations of a store on them, at times in microseconds on its clock.
class bucket_ledger {
public:
    store::answer take(std::string const& name, store::question const& q, std::int64_t now);
    void give_back(std::string const& name, store::give_back const& what, std::int64_t now);
    store::seats_answer hold(std::string const& name, store::seats_question const& q,
                             std::int64_t now) {
        return seats_[name].hold(q, now);
    }
    store::seats_answer hold(std::string const& name, store::seats_question const& q,
                             std::int64_t now, std::vector<policy::fed_seats::notice>& notices) {
        return seats_[name].hold(q, now, notices);
    }
    /// Returns how many seats of `name` are held.
    [[nodiscard]] amount held(std::string const& name, std::int64_t now) {
        return seats_[name].held(now);
    }
    void forget() {
        rows_.clear();
        logs_.clear();
        seats_.clear();
    }

private:
    struct row {
        std::int64_t at = 0;
        std::int64_t level = 0;
        std::int64_t permit = 1;  // drops per permit, the unit of the row
    };

    std::map<std::string, row> rows_;
    std::map<std::string, sliding_log_row> logs_;
    std::map<std::string, seat_ledger> seats_;
};

}  // namespace detail

/// The simulated faults of a `memory_store` for further questions.
struct store_conduct {
    /// The time that a question takes to reach the store.
    duration there{};
    /// The time that the reply takes.
    duration back{};
    /// What happens to a question.
    enum class fate : std::uint8_t {
        /// The store replies.
        answered,
        /// The store grants, but its reply is lost.
        answer_lost,
        /// The store cannot be reached: it grants nothing, and the limiter gets an error.
        unreachable,
    };
    /// The result of each question.
    fate what = fate::answered;
};

/// A store in the memory of this process, for tests, with the arithmetic and the faults of the real stores.
///
/// All limiters that share it must be in one process. On virtual time it is `basic_memory_store<testing::timer>`.
///
/// Create it with `std::make_shared`. Operations in progress keep it alive.
template <class Timer = basic_steady_timer<boost::asio::any_io_executor>>
class basic_memory_store final : public store,
                                 public std::enable_shared_from_this<basic_memory_store<Timer>> {
    using self = std::shared_ptr<basic_memory_store>;

public:
    /// Makes an empty store that replies on `ex`.
    explicit basic_memory_store(boost::asio::any_io_executor ex) : executor_(std::move(ex)) {}
    /// Makes an empty store that replies on the executor of `context`.
    template <class Context>
    explicit basic_memory_store(Context& context)
        : basic_memory_store(boost::asio::any_io_executor(context.get_executor())) {}

    /// Simulates these faults for further questions.
    void behave(store_conduct const& how) {
        std::lock_guard lock(mutex_);
        conduct_ = how;
    }
    /// Sets the clock of the store forward by `d`, or back if `d` is negative.
    void step_clock(std::chrono::microseconds d) {
        std::lock_guard lock(mutex_);
        offset_ += d;
    }
    /// Restarts the store without its data.
    void restart_empty() {
        std::lock_guard lock(mutex_);
        ledger_.forget();
    }

    /// Grants permits; see `store::async_take`.
    void async_take(std::string const& name, question const& q, answer_handler handler) override {
        answer_with<answer>(std::move(handler), [name, q](auto& ledger, std::int64_t now) {
            return ledger.take(name, q, now);
        });
    }

    /// Accepts every bucket and log; see `store::validate`.
    void validate(policy::shared_bucket const&) const override {}
    /// Returns true: the store supports seats.
    [[nodiscard]] bool keeps_seats() const noexcept override { return true; }

    /// Sets the number of seats of a holder; see `store::async_hold`.
    void async_hold(std::string const& name, seats_question const& q,
                    seats_handler handler) override {
        answer_with<seats_answer>(std::move(handler), [name, q](auto& ledger, std::int64_t now) {
            return ledger.hold(name, q, now);
        });
    }

    /// Returns how many of the seats `name` are held, by the record of the store.
    [[nodiscard]] amount held(std::string const& name) {
        return in_ledger([&](auto& ledger, std::int64_t now) { return ledger.held(name, now); });
    }

    /// Takes back unused permits; see `store::async_give_back`.
    void async_give_back(std::string const& name, give_back const& what) override {
        auto const how = conduct();
        if (how.what == store_conduct::fate::unreachable)
            return;
        after(how.there, [me = this->shared_from_this(), name, what] {
            me->in_ledger([&](auto& ledger, std::int64_t now) {
                ledger.give_back(name, what, now);
            });
        });
    }

private:
    [[nodiscard]] store_conduct conduct() const {
        std::lock_guard lock(mutex_);
        return conduct_;
    }

    template <class Answer, class Handler, class F>
    void answer_with(Handler handler, F f) {
        auto const how = conduct();
        if (how.what == store_conduct::fate::unreachable) {
            after(duration::zero(), [handler = std::move(handler)]() mutable {
                std::move(handler)(boost::asio::error::connection_refused, Answer());
            });
            return;
        }
        after(how.there,
              [me = this->shared_from_this(), f, how, handler = std::move(handler)]() mutable {
                  auto const a = me->in_ledger(f);
                  if (how.what == store_conduct::fate::answer_lost)
                      return;
                  me->after(how.back, [a, handler = std::move(handler)]() mutable {
                      std::move(handler)(error_code(), a);
                  });
              });
    }

    template <class F>
    auto in_ledger(F f) {
        std::lock_guard lock(mutex_);
        auto const now = std::chrono::floor<std::chrono::microseconds>(
            Timer::clock_type::now().time_since_epoch());
        return f(ledger_, (epoch + now + offset_).count());
    }

    // Calls `f` neither before this function returns, nor after the end of the context.
    template <class F>
    void after(duration d, F f) {
        executor_.use([&](auto const& executor) {
            if (d <= duration::zero()) {
                boost::asio::post(executor, std::move(f));
                return;
            }
            auto timer = std::make_shared<Timer>(executor);
            timer->expires_after(std::chrono::ceil<typename Timer::duration>(d));
            timer->async_wait([timer, f = std::move(f)](error_code ec) mutable {
                if (!ec)
                    f();
            });
        });
    }

    // Far from 0, wherever the clock starts.
    static constexpr std::chrono::microseconds epoch = std::chrono::hours(24 * 365 * 100);

    detail::revocable_executor executor_;
    std::mutex mutable mutex_;
    store_conduct conduct_;
    std::chrono::microseconds offset_{};
    detail::bucket_ledger ledger_;
};

/// A store in the memory of this process, for tests, on real time.
using memory_store = basic_memory_store<>;

}  // namespace weir::inline v0_2
