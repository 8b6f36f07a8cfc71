#pragma once

#include <weir/error.hpp>
#include <weir/policy/fed.hpp>
#include <weir/policy/fed_seats.hpp>
#include <weir/time.hpp>

#include <boost/asio/any_completion_handler.hpp>

#include <string>
#include <string_view>

namespace weir {

/// What keeps the state of limiters that many processes share, such as a database. It grants permits, all of them by
/// one clock, and knows nothing of who waits for them: that is the business of the limiter in each process.
///
/// A clock that is set back grants nothing early, and delays nobody by more than the time of a permit, or the window of a
/// log. One that is set forward by d cannot be told from time that has passed: it grants what comes back in d, at most a
/// burst and what is booked then, which is what comes back in `reach`.
///
/// All members may be called from any thread, also after the execution context of the store has ended: then no handler
/// is called any more. A handler is called once or never, not before the member has returned, under no lock and on any
/// thread. A limiter that hears nothing for as long as `shared_options::timeout` goes on without.
class store {
public:
    using question = policy::fed::question;
    using answer = policy::fed::answer;
    using give_back = policy::fed::give_back;
    using answer_handler = boost::asio::any_completion_handler<void(error_code, answer)>;
    using seats_question = policy::fed_seats::question;
    using seats_answer = policy::fed_seats::answer;
    using seats_handler = boost::asio::any_completion_handler<void(error_code, seats_answer)>;

    store() = default;
    store(store const&) = delete;
    store& operator=(store const&) = delete;
    virtual ~store() = default;

    /// Grants at least `q.min` permits of the bucket `name`, and as many more as there are up to `q.max`. If there
    /// are fewer than `q.min` it books exactly those, if they can be used within `q.ahead`; otherwise it grants
    /// nothing. A bucket of which nothing is known is full of permits. Of a sliding log it may grant fewer than there
    /// are, though not fewer than `q.min`.
    ///
    /// What cannot be granted within `q.timeout` must not be granted at all, as far as the store can see to it.
    virtual void async_take(std::string const& name, question const& q, answer_handler handler) = 0;

    /// Takes back permits of the bucket `name` that were granted and not used, less what has drained since: never
    /// more than leaves the bucket as full as if they had not been granted. Sent once; nobody waits for it.
    virtual void async_give_back(std::string const& name, give_back const& what) = 0;

    /// Throws `std::invalid_argument`, naming the option, its value and the bound, unless it can keep this bucket. A
    /// limiter asks when it is made and when its options are changed, and never puts a question about another bucket.
    ///
    /// A bucket with a window is a sliding log, which a store has to allow: by default it keeps none. Logs have names of
    /// their own. The time of a log goes on where the clock is set back: no grant is before an earlier one. What is
    /// given back leaves the log, if that time has come and so much of it is still there.
    virtual void validate(policy::shared_bucket const& b) const;

    /// Whether it can keep seats: then `async_hold` is called. They have names of their own.
    [[nodiscard]] virtual bool keeps_seats() const noexcept { return false; }

    /// Seats of `name` for a holder, from now on: as many as there are up to `q.max`, but if these are fewer than
    /// `q.min`, only those of its own, up to `q.keep`. `detail::seat_ledger` is how it is done:
    /// - A holding ends `q.lease` after its last question, if there was none since, or when it has no seats any more. No
    ///   holding lasts for longer than a lease from now, although the clock was set back.
    /// - A question whose number is not greater than the last one of the holding changes nothing.
    /// - A question with a fence goes on with the holding of that fence. If there is none, or another one of the holder, it
    ///   is told that it holds nothing. A question without a fence ends whatever the holder had.
    /// - The fence of a holding that begins is the time, in microseconds, or one more than the last fence, if that is
    ///   greater.
    virtual void async_hold(std::string const& name, seats_question const& q,
                            seats_handler handler);
};

namespace detail {

/// Throws `std::invalid_argument` that names what is wrong with it, unless a limiter `where` can be made of it.
void check_shared(std::string_view where, store const* e, std::string const& name);

}  // namespace detail
}  // namespace weir
