#pragma once

#include <weir/error.hpp>
#include <weir/policy/fed.hpp>
#include <weir/policy/fed_seats.hpp>
#include <weir/time.hpp>

#include <boost/asio/any_completion_handler.hpp>

#include <memory>
#include <string>
#include <string_view>

namespace weir::inline v0_2 {

/// The error of a question to a store.
struct store_failure {
    /// The error; none if there was a reply.
    error_code error = {};
    /// The message of the server, or where the attempt to reach it failed; may be empty.
    std::string text = {};
};

/// The interface of a store: it keeps the state of limiters that many processes share, such as in a database. It grants
/// permits by one clock. It does not manage the waiting requests; the limiter in each process does.
///
/// Clock: a clock that is set back grants nothing early, and delays a request by at most the time of a permit, or the
/// window of a log. A store cannot distinguish a clock that is set forward by d from the passage of time: it grants the
/// refill of d, at most a burst and the grants that are booked then. The booked grants are at most the refill of
/// `reach`.
///
/// Threads: any thread may call the members, even after the end of the store's execution context: then no handler is
/// called any more. A handler is called at most once, not before the member returned, under no lock and on any thread.
/// A limiter that gets no reply within `shared_options::timeout` continues without it.
///
/// Failures: a store reports an error with `answer::kind`, which decides about an outage, and with its next attempt in
/// `answer::wait` if it pauses. A late reply is useful: it ends an outage.
class store {
public:
    /// A request for permits of a bucket or a log.
    using question = policy::fed::question;
    /// The reply to a `question`.
    using answer = policy::fed::answer;
    /// Permits to take back.
    using give_back = policy::fed::give_back;
    /// The handler of the reply to a `question`.
    using answer_handler = boost::asio::any_completion_handler<void(error_code, answer)>;
    /// A request for seats.
    using seats_question = policy::fed_seats::question;
    /// The reply to a `seats_question`.
    using seats_answer = policy::fed_seats::answer;
    /// The receiver of messages for a holder of seats.
    using seats_listener = policy::fed_seats::listener;
    /// The handler of the reply to a `seats_question`.
    using seats_handler = boost::asio::any_completion_handler<void(error_code, seats_answer)>;

    store() = default;
    store(store const&) = delete;
    store& operator=(store const&) = delete;
    virtual ~store() = default;

    /// Grants at least `q.min` permits of the bucket `name`, and all other available permits up to `q.max`. If fewer
    /// than `q.min` are available, it books exactly `q.min` if they can be used within `q.ahead`; otherwise it grants
    /// nothing. An unknown bucket is full of permits. A sliding log may grant fewer permits than are available, but not
    /// fewer than `q.min`.
    ///
    /// As far as the store can ensure it, it must grant nothing after `q.timeout`.
    virtual void async_take(std::string const& name, question const& q, answer_handler handler) = 0;

    /// Takes back unused permits of the bucket `name`, less the refill since the grant: it never leaves the bucket
    /// fuller than without the grant. The limiter sends it once, and does not wait for the result.
    virtual void async_give_back(std::string const& name, give_back const& what) = 0;

    /// Throws `std::invalid_argument` if the store does not support this bucket; the text names the option, its value
    /// and the bound. A limiter calls it on construction and when its options change, and never asks about a bucket
    /// that was not checked.
    ///
    /// A bucket with a window is a sliding log. By default a store rejects it; a store that supports logs must override
    /// this. Logs have separate names. The time of a log continues when the clock is set back: no grant is before an
    /// earlier one. Permits given back leave the log if their time has come and all of them are still in it.
    virtual void validate(policy::shared_bucket const& b) const;

    /// Returns whether the store supports seats, by `async_hold`. Seats have separate names.
    [[nodiscard]] virtual bool keeps_seats() const noexcept { return false; }

    /// Sets the number of seats of `name` that a holder has from now on: all available seats up to `q.max`. If these
    /// are fewer than `q.min`, the holder keeps only its own seats, up to `q.keep`, and waits in the line.
    ///
    /// `detail::seat_ledger` implements the rules:
    /// - A holding ends `q.lease` after its last question, or when it has no more seats. No holding lasts longer than a
    ///   lease from now, even if the clock was set back.
    /// - The line has the holders that wait, in the order in which they began to wait. Only the first one gets seats,
    ///   as soon as it can have all that it waits for, with any question of any holder. If it had no seats, the grant
    ///   ends after `policy::fed_seats::confirm_of` unless it asks; `listen` has the messages about it. Free seats go
    ///   to others only while no holder waits.
    /// - A holder leaves the line by a question with `q.min` 0, or a lease after its last question that changed
    ///   something. A question that repeats how long it waits changes nothing until half of this time is over.
    /// - A question whose number is not greater than the number of the last recorded question of the holder changes
    ///   nothing.
    /// - A question with a fencing token continues the holding with this token. If the holder has no holding, or
    ///   another one, the reply is that it holds nothing. A question without a token continues a holding with a token
    ///   above `q.known`, and ends any other holding of the holder.
    /// - The fencing token of a new holding is the time in microseconds, or the last token plus one, if that is
    ///   greater. No token is below `q.known`.
    virtual void async_hold(std::string const& name, seats_question const& q,
                            seats_handler handler);

    /// Passes the messages for `holder` to `to` from now on, while it exists. A store without messages ignores it; its
    /// replies have `listens` false.
    virtual void listen(policy::fed_seats::holder_id const& holder,
                        std::weak_ptr<seats_listener> to);
};

namespace detail {

/// Throws `std::invalid_argument` that names the reason if `e` and `name` cannot make a limiter of the type `where`.
void check_shared(std::string_view where, store const* e, std::string const& name);

}  // namespace detail
}  // namespace weir::inline v0_2
