#include <weir/detail/random.hpp>
#include <weir/testing.hpp>

#include <boost/asio/append.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>

#include <atomic>
#include <map>
#include <mutex>
#include <vector>

namespace weir::inline v0_2::testing {
namespace {

std::atomic<clock::rep> current{0};

}  // namespace

clock::time_point clock::now() noexcept {
    return time_point(duration(current.load(std::memory_order_relaxed)));
}

void clock::advance_to(time_point t) noexcept {
    auto const wanted = t.time_since_epoch().count();
    auto seen = current.load(std::memory_order_relaxed);
    while (seen < wanted && !current.compare_exchange_weak(seen, wanted)) {}
}

void seed(std::uint64_t seed) noexcept {
    weir::detail::begin_series(seed);
}

namespace detail {

namespace asio = boost::asio;
using handler_type = timer_base::handler_type;

// The pending waits of one context, by expiry.
class virtual_timers {
public:
    using key = std::pair<clock::time_point, std::uint64_t>;

    [[nodiscard]] std::uint64_t new_id() { return next_id_.fetch_add(1); }

    void add(clock::time_point due, std::uint64_t timer, handler_type handler,
             asio::any_io_executor const& ex, std::shared_ptr<virtual_timers> const& self) {
        auto slot = asio::get_associated_cancellation_slot(handler);
        key const k(due, new_id());
        if (slot.is_connected()) {
            slot.assign([k, weak = std::weak_ptr(self)](asio::cancellation_type type) {
                auto const timers = weak.lock();
                if (timers && type != asio::cancellation_type::none)
                    timers->finish_if([&](auto const& entry) { return entry.first == k; },
                                      asio::error::operation_aborted);
            });
        }
        std::lock_guard lock(mutex_);
        waits_.emplace(k, wait(timer, std::move(handler), ex));
    }

    [[nodiscard]] clock::time_point next() {
        std::lock_guard lock(mutex_);
        return waits_.empty() ? clock::time_point::max() : waits_.begin()->first.first;
    }

    std::size_t cancel(std::uint64_t timer) {
        return finish_if([&](auto const& entry) { return entry.second.timer == timer; },
                         asio::error::operation_aborted);
    }

    void fire(clock::time_point now) {
        finish_if([&](auto const& entry) { return entry.first.first <= now; }, {});
    }

    void shutdown() {
        decltype(waits_) gone;
        std::lock_guard lock(mutex_);
        gone.swap(waits_);
    }

private:
    struct wait {
        wait(std::uint64_t id, handler_type h, asio::any_io_executor const& ex)
            : timer(id),
              work(asio::prefer(ex, asio::execution::outstanding_work.tracked)),
              handler_work(asio::prefer(
                  asio::get_associated_executor(h, ex), asio::execution::outstanding_work.tracked)),
              handler(std::move(h)) {}

        std::uint64_t timer;
        asio::any_io_executor work;
        asio::any_completion_executor handler_work;
        handler_type handler;
    };

    template <class Predicate>
    std::size_t finish_if(Predicate done, error_code ec) {
        std::vector<wait> finished;
        {
            std::lock_guard lock(mutex_);
            for (auto i = waits_.begin(); i != waits_.end();) {
                if (done(*i)) {
                    finished.push_back(std::move(i->second));
                    i = waits_.erase(i);
                } else {
                    ++i;
                }
            }
        }
        for (auto& w : finished)
            asio::post(w.work, asio::append(std::move(w.handler), ec));
        return finished.size();
    }

    std::mutex mutex_;
    std::map<key, wait> waits_;
    std::atomic<std::uint64_t> next_id_{0};
};

namespace {

class service final : public asio::execution_context::service {
public:
    using key_type = service;
    static inline asio::execution_context::id id;

    explicit service(asio::execution_context& context)
        : asio::execution_context::service(context), timers(std::make_shared<virtual_timers>()) {}

    std::shared_ptr<virtual_timers> const timers;

private:
    void shutdown() override { timers->shutdown(); }
};

}  // namespace

timer_base::timer_base(asio::any_io_executor ex, clock::time_point expires)
    : expiry(expires),
      executor_(std::move(ex)),
      timers_(asio::use_service<service>(asio::query(executor_, asio::execution::context)).timers),
      id_(timers_->new_id()) {}

timer_base::~timer_base() {
    try {
        timers_->cancel(id_);
    } catch (...) {
        // A handler that cannot be posted is destroyed, as at the end of its context.
    }
}

std::size_t timer_base::cancel() {
    return timers_->cancel(id_);
}

void timer_base::start(handler_type handler) {
    timers_->add(expiry, id_, std::move(handler), executor_, timers_);
}

}  // namespace detail

clock::time_point next_expiry(boost::asio::execution_context& context) {
    return boost::asio::use_service<detail::service>(context).timers->next();
}

void fire_due(boost::asio::execution_context& context) {
    boost::asio::use_service<detail::service>(context).timers->fire(clock::now());
}

}  // namespace weir::inline v0_2::testing
