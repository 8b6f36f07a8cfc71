#pragma once

#include <weir/detail/revocable_executor.hpp>
#include <weir/error.hpp>
#include <weir/shared/store.hpp>

#include "attempts.hpp"
#include "connections.hpp"
#include "session.hpp"
#include "time_limit.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/system/errc.hpp>
#include <boost/system/system_error.hpp>

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace weir::inline v0_2::detail::sql {

/// A store on tables of a database: the questions to its sessions, see session.hpp. Coroutines that use it keep it
/// alive.
template <class Session>
class database : public std::enable_shared_from_this<database<Session>> {
    using reply = reply_of<weir::store::answer>;
    using seats_reply = reply_of<weir::store::seats_answer>;

public:
    using settings = typename Session::settings_type;
    using connection = typename connections<Session>::connection;

    database(boost::asio::any_io_executor const& ex, std::shared_ptr<settings> s)
        : executor_(ex), settings_(std::move(s)), connections_(ex, settings_) {}

    /// Returns a strand. Throws `boost::system::system_error` if the context has ended.
    [[nodiscard]] boost::asio::strand<boost::asio::any_io_executor> make_strand() const {
        std::optional<boost::asio::strand<boost::asio::any_io_executor>> made;
        if (!executor_.use([&](auto const& executor) {
                made = boost::asio::make_strand(executor);
            }))
            throw boost::system::system_error(make_error_code(errc::closed), Session::where);
        return *made;
    }

    void take(std::string name, weir::store::question const& q,
              weir::store::answer_handler handler) {
        start([self = this->shared_from_this(), name = std::move(name),
               q]() mutable { return ask(std::move(self), std::move(name), q); },
              std::move(handler));
    }

    void hold(std::string name, weir::store::seats_question const& q,
              weir::store::seats_handler handler) {
        start([self = this->shared_from_this(), name = std::move(name),
               q]() mutable { return ask_for_seats(std::move(self), std::move(name), q); },
              std::move(handler));
    }

    void give_back(std::string name, weir::store::give_back const& what) {
        on_strand([self = this->shared_from_this(), name = std::move(name),
                   what](auto const& strand) mutable {
            boost::asio::co_spawn(
                strand, return_to(std::move(self), std::move(name), what),
                [](std::exception_ptr const&) {});  // after an error it counts as used
        });
    }

    /// Acquires a connection: see `connections::checkout`.
    [[nodiscard]] boost::asio::awaitable<connection> checkout(clock::time_point until,
                                                              duration statement) {
        return connections_.checkout(until, statement);
    }

    /// Creates the missing tables. Must run on a strand.
    [[nodiscard]] boost::asio::awaitable<void> install() {
        // On a separate connection, so that every error is reported at once.
        auto const strand = co_await boost::asio::this_coro::executor;
        Session one(strand, settings_);
        co_await connect(one);
        for (auto const& t : Session::tables()) {
            auto done = co_await one.execute(t.look, clock::time_point::max());
            if (!done.error)
                continue;  // a user that may use the table needs no right to create it
            if (Session::is_of_another_version(done.error))
                throw lacks_column(one, t, done.error);
            done = co_await one.execute(t.create, clock::time_point::max());
            if (!done.error)
                continue;
            auto const failure = one.failure(done.error, Session::where);
            // Another process may have created it meanwhile.
            done = co_await one.execute(t.look, clock::time_point::max());
            if (done.error)
                throw failure;
        }
    }

    /// Checks the tables and the row of the seats `name`. Must run on a strand.
    [[nodiscard]] boost::asio::awaitable<void> check(std::string name) {
        auto const strand = co_await boost::asio::this_coro::executor;
        Session one(strand, settings_);
        co_await connect(one);
        auto const until = settings_->connect_until();
        for (auto const& t : Session::tables()) {
            auto done = co_await one.execute(t.look, until);
            if (Session::is_of_another_version(done.error))
                throw lacks_column(one, t, done.error);
            if (!done.error)
                done = co_await one.execute(t.write, until);
            if (done.error)
                throw one.failure(done.error, Session::where);
        }
        seats_row row;
        auto const done = co_await one.read(name, row, until);
        if (done.error)
            throw one.failure(done.error, Session::where);
        if (row.is_there && !row.ledger)
            throw boost::system::system_error(
                no_ledger(), std::string(Session::where) + ": the row " + name +
                                 " of weir_seats holds no seats; delete it");
    }

private:
    static error_code no_ledger() { return make_error_code(boost::system::errc::bad_message); }

    static boost::system::system_error lacks_column(Session const& one, table const& t,
                                                    error_code const& ec) {
        return one.failure(ec, std::string(Session::where) + ": the table " + std::string(t.name) +
                                   " is of another version of weir; rename or drop it");
    }

    // Returns the result of a question that failed with an error of the connection, or of the server.
    template <class Answer>
    static Answer failure_of(outcome const& done, Session const& one) {
        return {.lost = done.lost,
                .kind = done.lost ? failure_kind::no_reply : Session::kind_of(done.error),
                .text = one.text()};
    }
    template <class Reply>
    static Reply no_connection(boost::system::system_error const& e) {
        Reply made{e.code(), {}};
        made.said.kind = failure_kind::unsent;
        if (auto const* const failed = dynamic_cast<connection_failure const*>(&e)) {
            made.said.kind = failed->kind;
            made.said.wait = std::chrono::ceil<std::chrono::microseconds>(failed->again_in);
            made.said.text = plain_text(e);
        } else if (e.code().category() != weir::error_category()) {
            made.said.kind = Session::kind_of(e.code());
            made.said.text = plain_text(e);
        }
        return made;
    }

    static boost::asio::awaitable<reply> ask(std::shared_ptr<database> self, std::string name,
                                             weir::store::question q) {
        auto const until = clock::now() + q.timeout;
        connection given;
        try {
            given = co_await self->checkout(until, q.timeout);
        } catch (boost::system::system_error const& e) {
            co_return no_connection<reply>(e);
        }
        auto& one = **given;
        reply made;
        auto done = co_await one.take(name, q, made.said, until);
        if (Session::is_conflict(done.error))
            done = co_await one.take(name, q, made.said, until);
        if (done.error)
            made = {done.error, failure_of<weir::store::answer>(done, one)};
        if (one.is_broken())
            given.discard();
        co_return made;
    }

    static boost::asio::awaitable<void> return_to(std::shared_ptr<database> self, std::string name,
                                                  weir::store::give_back what) {
        auto const until = clock::now() + what.timeout;
        auto given = co_await self->checkout(until, what.timeout);
        auto& one = **given;
        co_await one.give_back(name, what, until);  // once, whatever the result
        if (one.is_broken())
            given.discard();
    }

    // The row is read, and written if no other process has written it meanwhile. So a suspended process holds no lock.
    // The time is the time of the read, which is before any grant, and after the question.
    static boost::asio::awaitable<seats_reply> ask_for_seats(
        std::shared_ptr<database> self, std::string name, weir::store::seats_question q) {
        auto const until = clock::now() + q.timeout;
        connection given;
        try {
            given = co_await self->checkout(until, q.timeout);
        } catch (boost::system::system_error const& e) {
            co_return no_connection<seats_reply>(e);
        }
        auto& one = **given;
        seats_reply made{boost::asio::error::timed_out, {.kind = failure_kind::no_reply}};
        while (clock::now() < until) {
            seats_row row;
            auto done = co_await one.read(name, row, until);
            if (!done.error && !row.is_there) {
                done = co_await one.make(name, until);
                if (!done.error || Session::is_conflict(done.error))
                    continue;
            }
            if (!done.error && !row.ledger)
                done.error = no_ledger();
            made = {done.error, {}};
            if (done.error) {
                made.said = failure_of<weir::store::seats_answer>(done, one);
                if (row.is_there && !row.ledger) {
                    made.said.kind = failure_kind::misconfigured;
                    made.said.text = "the row of the limiter holds no seats";
                }
                break;
            }
            auto const before = *row.ledger;
            made.said = row.ledger->hold(q, row.now);
            if (*row.ledger == before)
                break;
            done = co_await one.write(name, row, until);
            bool const was_overtaken =
                done.error ? Session::is_conflict(done.error) : one.affected_rows() == 0;
            if (!was_overtaken) {
                if (done.error)
                    made = {done.error, failure_of<weir::store::seats_answer>(done, one)};
                break;
            }
            made = {boost::asio::error::timed_out, {.kind = failure_kind::no_reply}};
        }
        if (one.is_broken())
            given.discard();
        co_return made;
    }

    // Connects within the time limit.
    [[nodiscard]] boost::asio::awaitable<void> connect(Session& one) const {
        namespace asio = boost::asio;
        auto const strand = co_await asio::this_coro::executor;
        auto const state = co_await asio::this_coro::cancellation_state;
        time_limit const limit(strand, state, settings_->connect_until());
        auto const [failure] = co_await asio::co_spawn(
            strand, one.connect(), limit.bound(asio::as_tuple(asio::deferred)));
        if (failure && limit.passed())
            throw boost::system::system_error(
                asio::error::timed_out,
                std::string(Session::where) + ": connect to " + one.address());
        if (failure)
            std::rethrow_exception(failure);
    }

    // Calls `f(strand)` on the executor, never in this function; never at all if the context has ended.
    template <class F>
    void on_strand(F f) {
        executor_.use([&](auto const& executor) {
            boost::asio::post(executor, [strand = boost::asio::make_strand(executor),
                                         f = std::move(f)]() mutable { f(strand); });
        });
    }

    // Starts the coroutine that `make` returns, on a strand, and calls `handler` with its reply.
    template <class Make, class Handler>
    void start(Make make, Handler handler) {
        on_strand(
            [make = std::move(make), handler = std::move(handler)](auto const& strand) mutable {
                auto complete = [handler = std::move(handler)]<class Reply>(
                                    std::exception_ptr const& failure, Reply const& r) mutable {
                    if (failure)  // out of memory
                        std::move(handler)(boost::asio::error::no_memory,
                                           decltype(r.said){.lost = true});
                    else
                        std::move(handler)(r.error, r.said);
                };
                boost::asio::co_spawn(strand, make(), std::move(complete));
            });
    }

    revocable_executor executor_;
    std::shared_ptr<settings> settings_;
    connections<Session> connections_;
};

}  // namespace weir::inline v0_2::detail::sql
