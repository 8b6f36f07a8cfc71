#pragma once

#include <weir/error.hpp>
#include <weir/pool.hpp>
#include <weir/time.hpp>

#include "attempts.hpp"
#include "session.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/system/system_error.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

namespace weir::inline v0_2::detail::sql {

/// The connections of a store: see session.hpp.
template <class Session>
class connections {
public:
    using settings = typename Session::settings_type;
    using connection = weir::lease<std::unique_ptr<Session>>;

    connections(boost::asio::any_io_executor const& ex, std::shared_ptr<settings> const& s)
        : attempts_(std::make_shared<attempts>(s->retry())),
          pool_(
              ex,
              [s, a = attempts_](boost::asio::any_io_executor const& home) {
                  return make(home, s, a);
              },
              [](std::unique_ptr<Session>& one) { return check(*one); },
              {.max = s->max_connections(),
               .check_after = std::chrono::seconds(10),
               .create_timeout = s->connect_timeout(),
               .retry = retry_of_pool(s->retry())}) {
        // Without any connection the questions need not wait for the next attempt.
        attempts_->on_failure([this] {
            if (is_cut_off())
                pool_.cancel();
        });
    }
    connections(connections const&) = delete;
    connections& operator=(connections const&) = delete;
    ~connections() { attempts_->on_failure({}); }

    /// Acquires a connection on which a statement may take the given time. Throws `boost::system::system_error`: a
    /// `connection_failure` if attempts to connect fail, a `rejection` if there is none in time, and otherwise the
    /// error of the server.
    [[nodiscard]] boost::asio::awaitable<connection> checkout(clock::time_point until,
                                                              duration statement) {
        namespace asio = boost::asio;
        auto const begin = clock::now();
        error_code ec;
        auto given = pool_.try_checkout(ec);
        while (ec) {
            if (auto const at = attempts_->retry_at(); at > clock::now() && is_cut_off()) {
                if (auto const failed = attempts_->failure(begin); failed && at >= until)
                    throw connection_failure(*failed);
                asio::steady_timer pause(co_await asio::this_coro::executor, at);
                co_await pause.async_wait(asio::deferred);
            }
            std::tie(ec, given) =
                co_await pool_.async_checkout_until(until, asio::as_tuple(asio::deferred));
            auto const state = co_await asio::this_coro::cancellation_state;
            bool const is_cancelled = state.cancelled() != asio::cancellation_type::none;
            auto const failed = attempts_->failure(begin);
            if (ec && failed && ec != errc::closed && !is_cancelled && is_cut_off())
                throw connection_failure(*failed);
            if (ec && (ec != asio::error::operation_aborted || is_cancelled))
                throw rejection(ec, std::nullopt);
        }
        if (!(*given)->limits_statements(statement)) {
            auto const limited = co_await (*given)->limit_statements(statement, until);
            if (limited.error) {
                auto const kind = (*given)->is_broken() ? failure_kind::no_reply
                                                        : Session::kind_of(limited.error);
                auto const why = (*given)->failure(limited.error, Session::where);
                given.discard();
                if (limited.error == asio::error::timed_out && clock::now() >= until)
                    throw rejection(errc::timed_out, std::nullopt);
                throw connection_failure(why, kind, duration::zero());
            }
        }
        co_return std::move(given);
    }

private:
    static boost::asio::awaitable<std::unique_ptr<Session>> make(boost::asio::any_io_executor ex,
                                                                 std::shared_ptr<settings> s,
                                                                 std::shared_ptr<attempts> of) {
        using boost::system::system_error;
        auto made = std::make_unique<Session>(ex, std::move(s));
        try {
            co_await made->connect();
        } catch (system_error const& e) {
            // After `connect_timeout` the pool cancels it.
            bool const is_late = e.code() == boost::asio::error::operation_aborted;
            system_error const late(
                boost::asio::error::timed_out, std::string(Session::where) + ": connect");
            auto const& why = is_late ? late : e;
            of->failed(why, Session::kind_of(why.code()));
            throw;
        }
        of->succeeded();
        co_return made;
    }

    static boost::asio::awaitable<bool> check(Session& one) { co_return co_await one.is_alive(); }

    // The pool tries again as soon as the store may: the store adds the jitter.
    static backoff_options retry_of_pool(backoff_options retry) {
        retry.jitter = 0;
        return retry;
    }

    // Returns whether there is no connection.
    [[nodiscard]] bool is_cut_off() const {
        auto const s = pool_.stats();
        return s.idle == 0 && s.in_use == 0 && s.being_checked == 0;
    }

    std::shared_ptr<attempts> attempts_;
    weir::pool<std::unique_ptr<Session>> pool_;
};

}  // namespace weir::inline v0_2::detail::sql
