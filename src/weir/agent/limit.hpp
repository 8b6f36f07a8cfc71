#pragma once

#include <weir/permit.hpp>
#include <weir/policy/shared_bucket.hpp>
#include <weir/shared/limiter.hpp>
#include <weir/shared/store.hpp>
#include <weir/time.hpp>

#include "frames.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

namespace weir::inline v0_2::agent::detail {

/// A shared limiter that learns how many permits its next requests will need.
template <class Limiter>
class expecting : public Limiter {
public:
    using Limiter::Limiter;

    void expect(amount more) {
        this->core().modify([&](auto& room) {
            room.policy().expect(more);
            return false;
        });
    }
};
using any_shared_limiter =
    std::variant<expecting<shared_token_bucket>, expecting<shared_sliding_log>>;

/// A limit whose permits the agent fetches ahead: one limiter for all its clients, and the permits that they may still
/// give back.
///
/// Use it on the strand of the agent.
class limit {
public:
    /// Returns whether a lease has enough permits that it is worth while to fetch them ahead.
    [[nodiscard]] static bool is_worth(policy::shared_bucket const& bucket, duration lease);

    /// Throws `std::invalid_argument` if the store does not support the bucket.
    limit(boost::asio::any_io_executor const& ex, std::shared_ptr<weir::store> at,
          std::string const& name, policy::shared_bucket const& bucket, duration lease);

    /// Returns whether it applies this rate.
    [[nodiscard]] bool is_for(policy::shared_bucket const& bucket) const noexcept;
    /// Applies another rate. Throws `std::invalid_argument`.
    void use(policy::shared_bucket const& bucket);

    /// Grants from the available permits, if they are at least `q.min` and no question waits: up to `q.max`.
    [[nodiscard]] permit take_now(take const& q);
    /// Waits in the line for `q.min` permits, and calls `f(error_code, permit)` on the strand. The next question to the
    /// store is for the others, too.
    template <class Handler>
    void wait(take const& q, duration patience, Handler f) {
        std::visit(
            [&](auto& l) {
                l.expect(q.max - q.min);
                l.async_enter(q.min, patience, std::move(f));
            },
            limiter_);
    }
    /// Returns the reply with these permits, and with others up to `q.max` if there are any.
    [[nodiscard]] answer grant(take const& q, permit p);
    /// Takes permits back that a client did not use. Returns false if it does not know their grant.
    bool take_back(amount count, std::int64_t since);

    /// Returns the message about the last failure of the store.
    [[nodiscard]] std::string failure() const;
    /// Returns whether no question waits.
    [[nodiscard]] bool is_idle() const;

private:
    struct grant_record {
        std::int64_t since;
        time_point until;
        permit granted;
    };

    static constexpr std::size_t most_records = 4096;

    void forget_old(time_point now);

    policy::shared_bucket bucket_;
    duration lease_;
    any_shared_limiter limiter_;
    std::deque<grant_record> granted_;
    std::int64_t last_since_ = 0;
};

}  // namespace weir::inline v0_2::agent::detail
