#include "database.hpp"

#include <weir/shared/seat_ledger.hpp>

#include "statements.hpp"
#include "time_limit.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/mysql/blob_view.hpp>
#include <boost/mysql/client_errc.hpp>
#include <boost/mysql/common_server_errc.hpp>
#include <boost/mysql/error_categories.hpp>
#include <boost/mysql/field_view.hpp>

#include <array>
#include <cstdint>
#include <exception>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace weir::inline v0_2::mysql::detail {
namespace {

namespace asio = boost::asio;
namespace my = boost::mysql;

// Returns the parameters of an order.
template <class Order>
std::vector<my::field_view> bound_to(statement_text const& text, std::string const& name,
                                     Order const& order) {
    return bound(text, name, [&](statement_text::parameter p) { return value_of(p, order); });
}

std::string_view text_of(my::blob_view blob) {
    return {reinterpret_cast<char const*>(blob.data()), blob.size()};
}

// A row of seats, as it was read.
struct seats_row {
    bool is_there = false;
    std::int64_t now = 0;
    std::int64_t version = 0;
    std::optional<weir::detail::seat_ledger> ledger = {};  // none: the text is not a ledger
};

asio::awaitable<outcome> read(session& one, std::string const& name, seats_row& row,
                              database::clock::time_point until) {
    auto const& text = detail::read_seats();
    auto const fields = bound(text, name, [](auto) { return my::field_view(); });
    auto const done = co_await one.execute(text, fields, until);
    row = {};
    if (!done.error && !one.result().rows().empty()) {
        auto const found = one.result().rows().at(0);
        row = {.is_there = true,
               .now = found.at(0).as_int64(),
               .version = found.at(1).as_int64(),
               .ledger = weir::detail::seat_ledger::parse(text_of(found.at(2).as_blob()))};
    }
    co_return outcome{done.error};  // it had no effect
}

asio::awaitable<outcome> write(session& one, std::string const& name, seats_row const& row,
                               database::clock::time_point until) {
    auto const state = row.ledger->text();
    auto const& text = detail::write_seats();
    auto const fields = bound(text, name, [&](statement_text::parameter p) {
        if (p == statement_text::parameter::version)
            return my::field_view(row.version);
        return my::field_view(
            my::blob_view(reinterpret_cast<unsigned char const*>(state.data()), state.size()));
    });
    co_return co_await one.execute(text, fields, until);
}

asio::awaitable<std::unique_ptr<session>> make_session(
    asio::any_io_executor ex, std::shared_ptr<settings> s, std::shared_ptr<attempts> of) {
    using boost::system::system_error;
    auto made = std::make_unique<session>(ex, std::move(s));
    try {
        co_await made->connect();
    } catch (system_error const& e) {
        bool const is_late = e.code() == asio::error::operation_aborted;  // after `connect_timeout`
        of->failed(is_late ? system_error(asio::error::timed_out, "weir::mysql: connect") : e);
        throw;
    }
    of->succeeded();
    co_return made;
}

// The pool tries again as soon as the store may: the store adds the jitter.
backoff_options retry_of_pool(backoff_options retry) {
    retry.jitter = 0;
    return retry;
}

// Returns the result of a question that failed with an error of the connection, or of the server.
template <class Answer>
Answer failure_of(outcome const& done, session const& one) {
    return {.lost = done.lost,
            .kind = done.lost ? failure_kind::no_reply : kind_of(done.error),
            .text = one.text()};
}
template <class Reply>
Reply no_connection(boost::system::system_error const& e) {
    Reply made{e.code(), {}};
    made.said.kind = failure_kind::unsent;
    if (auto const* const failed = dynamic_cast<connection_failure const*>(&e)) {
        made.said.kind = failed->kind;
        made.said.wait = std::chrono::ceil<std::chrono::microseconds>(failed->again_in);
        made.said.text = plain_text(e);
    } else if (e.code().category() != weir::error_category()) {
        made.said.kind = kind_of(e.code());
        made.said.text = plain_text(e);
    }
    return made;
}

asio::awaitable<bool> check_session(session& one) {
    co_return co_await one.is_alive();
}

}  // namespace

bool is_deadlock(error_code const& ec) noexcept {
    return ec == my::common_server_errc::er_lock_deadlock;
}

database::database(asio::any_io_executor ex, options const& o)
    : executor_(ex),
      settings_(std::make_shared<settings>(o)),
      attempts_(std::make_shared<attempts>(o.retry)),
      connections_(
          ex,
          [s = settings_, a = attempts_](asio::any_io_executor const& home) {
              return make_session(home, s, a);
          },
          [](std::unique_ptr<session>& one) { return check_session(*one); },
          {.max = o.max_connections,
           .check_after = std::chrono::seconds(10),
           .create_timeout = o.connect_timeout,
           .retry = retry_of_pool(o.retry)}) {
    // Without any connection the questions need not wait for the next attempt.
    attempts_->on_failure([this] {
        if (is_cut_off())
            connections_.cancel();
    });
}

bool database::is_cut_off() const {
    auto const s = connections_.stats();
    return s.idle == 0 && s.in_use == 0 && s.being_checked == 0;
}

database::~database() {
    attempts_->on_failure({});
}

asio::strand<asio::any_io_executor> database::make_strand() const {
    std::optional<asio::strand<asio::any_io_executor>> made;
    if (!executor_.use([&](auto const& executor) { made = asio::make_strand(executor); }))
        throw boost::system::system_error(make_error_code(errc::closed), "weir::mysql");
    return *made;
}

template <class F>
void database::on_strand(F f) {
    executor_.use([&](auto const& executor) {
        asio::post(executor, [strand = asio::make_strand(executor), f = std::move(f)]() mutable {
            f(strand);
        });
    });
}

asio::awaitable<database::connection> database::checkout(clock::time_point until,
                                                         duration statement) {
    auto const begin = clock::now();
    error_code ec;
    auto given = connections_.try_checkout(ec);
    while (ec) {
        if (auto const at = attempts_->retry_at(); at > clock::now() && is_cut_off()) {
            if (auto const failed = attempts_->failure(begin); failed && at >= until)
                throw connection_failure(*failed);
            asio::steady_timer pause(co_await asio::this_coro::executor, at);
            co_await pause.async_wait(asio::deferred);
        }
        std::tie(ec, given) =
            co_await connections_.async_checkout_until(until, asio::as_tuple(asio::deferred));
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
            auto const kind =
                (*given)->is_broken() ? failure_kind::no_reply : kind_of(limited.error);
            auto const why = (*given)->failure(limited.error);
            given.discard();
            if (limited.error == asio::error::timed_out && clock::now() >= until)
                throw rejection(errc::timed_out, std::nullopt);
            throw connection_failure(why, kind, duration::zero());
        }
    }
    co_return std::move(given);
}

asio::awaitable<database::reply> database::ask(std::shared_ptr<database> self, std::string name,
                                               weir::store::question q) {
    auto const until = clock::now() + q.timeout;
    connection given;
    try {
        given = co_await self->checkout(until, q.timeout);
    } catch (boost::system::system_error const& e) {
        co_return no_connection<reply>(e);
    }
    auto& one = **given;
    bool const is_log = q.bucket.window != 0;
    auto const& text = is_log ? detail::take_of_log() : detail::take();
    auto const values = bound_to(text, name, q);
    auto done = co_await one.execute(text, values, until);
    if (is_deadlock(done.error))
        done = co_await one.execute(text, values, until);
    if (done.error) {
        reply const failed{done.error, failure_of<weir::store::answer>(done, one)};
        if (one.is_broken())
            given.discard();
        co_return failed;
    }
    auto const id = one.result().last_insert_id();
    auto const about = one.about();
    if (auto const now = time_of(id, about); now && !is_log)  // a log has its own time
        one.note_time(*now);
    auto said = answer_of(id, q, about);
    said.is_new = one.result().affected_rows() == 1;  // the statement inserted the row
    co_return reply{error_code(), std::move(said)};
}

void database::take(std::string name, weir::store::question const& q,
                    weir::store::answer_handler handler) {
    on_strand([self = shared_from_this(), name = std::move(name), q,
               handler = std::move(handler)](auto const& strand) mutable {
        auto complete = [handler = std::move(handler)](
                            std::exception_ptr const& failure, reply const& r) mutable {
            if (failure)  // out of memory
                std::move(handler)(asio::error::no_memory, weir::store::answer{.lost = true});
            else
                std::move(handler)(r.error, r.said);
        };
        asio::co_spawn(strand, ask(std::move(self), std::move(name), q), std::move(complete));
    });
}

asio::awaitable<void> database::return_to(std::shared_ptr<database> self, std::string name,
                                          weir::store::give_back what) {
    auto const until = clock::now() + what.timeout;
    auto given = co_await self->checkout(until, what.timeout);
    auto& one = **given;
    auto const& text = what.bucket.window != 0 ? detail::give_back_to_log() : detail::give_back();
    auto const values = bound_to(text, name, what);
    co_await one.execute(text, values, until);  // once, whatever the result
    if (one.is_broken())
        given.discard();
}

void database::give_back(std::string name, weir::store::give_back const& what) {
    on_strand(
        [self = shared_from_this(), name = std::move(name), what](auto const& strand) mutable {
            asio::co_spawn(strand, return_to(std::move(self), std::move(name), what),
                           [](std::exception_ptr const&) {});  // after an error it counts as used
        });
}

// The row is read, and written if no other process has written it meanwhile. So a suspended process holds no lock. The
// time is the time of the read, which is before any grant, and after the question.
asio::awaitable<database::seats_reply> database::ask_for_seats(
    std::shared_ptr<database> self, std::string name, weir::store::seats_question q) {
    auto const until = clock::now() + q.timeout;
    connection given;
    try {
        given = co_await self->checkout(until, q.timeout);
    } catch (boost::system::system_error const& e) {
        co_return no_connection<seats_reply>(e);
    }
    auto& one = **given;
    seats_reply made{asio::error::timed_out, {.kind = failure_kind::no_reply}};
    while (clock::now() < until) {
        seats_row row;
        auto done = co_await read(one, name, row, until);
        if (!done.error && !row.is_there) {
            auto const& text = detail::make_seats();
            auto const fields = bound(text, name, [](auto) { return my::field_view(); });
            done = co_await one.execute(text, fields, until);
            if (!done.error || is_deadlock(done.error))
                continue;
        }
        if (!done.error && !row.ledger)
            done.error = my::client_errc::protocol_value_error;
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
        done = co_await write(one, name, row, until);
        bool const was_overtaken =
            done.error ? is_deadlock(done.error) : one.result().affected_rows() == 0;
        if (!was_overtaken) {
            if (done.error)
                made = {done.error, failure_of<weir::store::seats_answer>(done, one)};
            break;
        }
        made = {asio::error::timed_out, {.kind = failure_kind::no_reply}};
    }
    if (one.is_broken())
        given.discard();
    co_return made;
}

void database::hold(std::string name, weir::store::seats_question const& q,
                    weir::store::seats_handler handler) {
    on_strand([self = shared_from_this(), name = std::move(name), q,
               handler = std::move(handler)](auto const& strand) mutable {
        auto complete = [handler = std::move(handler)](
                            std::exception_ptr const& failure, seats_reply const& r) mutable {
            if (failure)  // out of memory
                std::move(handler)(asio::error::no_memory, weir::store::seats_answer{.lost = true});
            else
                std::move(handler)(r.error, r.said);
        };
        asio::co_spawn(strand, ask_for_seats(std::move(self), std::move(name), q),
                       std::move(complete));
    });
}

asio::awaitable<void> database::connect(session& one) const {
    auto const strand = co_await asio::this_coro::executor;
    auto const state = co_await asio::this_coro::cancellation_state;
    time_limit const limit(strand, state, settings_->connect_until());
    auto const [failure] =
        co_await asio::co_spawn(strand, one.connect(), limit.bound(asio::as_tuple(asio::deferred)));
    if (failure && limit.passed())
        throw boost::system::system_error(
            asio::error::timed_out, "weir::mysql: connect to " + one.address());
    if (failure)
        std::rethrow_exception(failure);
}

namespace {

using namespace std::string_view_literals;

struct table {
    std::string_view name;
    std::string_view look;   // at its columns
    std::string_view write;  // nothing
    std::string_view (*create)() noexcept;
};
constexpr std::array tables{
    table{"weir_bucket"sv, "select k, at, level, permit from weir_bucket limit 0"sv,
          "insert into weir_bucket(k, at, level, permit) select k, at, level, permit from "
          "weir_bucket "
          "where false on duplicate key update at = 0"sv,
          &create_table},
    table{"weir_log"sv, "select k, at, ahead, grants from weir_log limit 0"sv,
          "insert into weir_log(k, at, ahead, grants) select k, at, ahead, grants from weir_log "
          "where "
          "false on duplicate key update at = 0"sv,
          &create_log_table},
    table{
        "weir_seats"sv, "select k, version, state from weir_seats limit 0"sv,
        "insert into weir_seats(k, version, state) select k, version, state from weir_seats where "
        "false on duplicate key update version = 0"sv,
        &create_seats_table}};

boost::system::system_error lacks_column(session const& one, table const& t, error_code const& ec) {
    return one.failure(ec, "weir::mysql: the table " + std::string(t.name) +
                               " is of another version of weir; rename or drop it");
}

}  // namespace

asio::awaitable<void> database::install() {
    // On a separate connection, so that every error is reported at once.
    auto const strand = co_await asio::this_coro::executor;
    session one(strand, settings_);
    co_await connect(one);
    for (auto const& t : tables) {
        auto done = co_await one.execute(t.look, clock::time_point::max());
        if (!done.error)
            continue;  // a user that may use the table needs no right to create it
        if (done.error == my::common_server_errc::er_bad_field_error)
            throw lacks_column(one, t, done.error);
        done = co_await one.execute(t.create(), clock::time_point::max());
        if (done.error)
            throw one.failure(done.error);
    }
}

asio::awaitable<void> database::check(std::string name) {
    auto const strand = co_await asio::this_coro::executor;
    session one(strand, settings_);
    co_await connect(one);
    auto const until = settings_->connect_until();
    for (auto const& t : tables) {
        auto done = co_await one.execute(t.look, until);
        if (done.error == my::common_server_errc::er_bad_field_error)
            throw lacks_column(one, t, done.error);
        if (!done.error)
            done = co_await one.execute(t.write, until);
        if (done.error)
            throw one.failure(done.error);
    }
    seats_row row;
    auto const done = co_await read(one, name, row, until);
    if (done.error)
        throw one.failure(done.error);
    if (row.is_there && !row.ledger)
        throw boost::system::system_error(
            my::client_errc::protocol_value_error,
            "weir::mysql: the row " + name + " of weir_seats holds no seats; delete it");
}

}  // namespace weir::inline v0_2::mysql::detail
