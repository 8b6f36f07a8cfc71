#include <weir/mysql/strict_interval.hpp>

#include "../check_option.hpp"
#include "bound.hpp"
#include "database.hpp"
#include "statements.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/mysql/common_server_errc.hpp>
#include <boost/mysql/error_categories.hpp>
#include <boost/mysql/field_view.hpp>
#include <boost/mysql/mariadb_server_errc.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

namespace weir::inline v0_2::mysql {
namespace {

namespace asio = boost::asio;
namespace my = boost::mysql;
using clock = std::chrono::steady_clock;
using std::chrono::microseconds;

// The statement to execute, the name of the limiter, and the store.
struct insertion {
    std::shared_ptr<detail::database> database;
    std::string name;
    microseconds every;
    std::string sql;
    std::vector<value> values;
    clock::time_point until;
};

// The connection ended before the commit, so nothing was inserted.
struct interrupted : boost::system::system_error {
    explicit interrupted(system_error const& e) : system_error(e) {}
};

// Returns whether the server has ended the connection, or is about to.
bool is_end(error_code const& ec) {
    return ec == my::common_server_errc::er_server_shutdown ||
           (ec.category() == my::get_mariadb_server_category() &&
            ec.value() == my::mariadb_server_errc::er_connection_killed);
}

// Returns the exception for an error before the commit.
std::exception_ptr failure_for(insertion const& what, detail::session const& of,
                               error_code const& ec) {
    if (ec == asio::error::timed_out &&
        clock::now() >= what.until)  // the server rolls everything back
        return std::make_exception_ptr(rejection(errc::timed_out, std::nullopt));
    if (ec != asio::error::operation_aborted && (of.is_broken() || is_end(ec)))
        return std::make_exception_ptr(interrupted(of.failure(ec)));
    return std::make_exception_ptr(of.failure(ec));
}

// Waits, at most until the end of the patience.
asio::awaitable<void> pass(insertion const& what, duration time) {
    if (time <= duration::zero())
        co_return;
    auto const rest = std::max<clock::duration>(what.until - clock::now(), duration::zero());
    asio::steady_timer timer(co_await asio::this_coro::executor, std::min(rest, time));
    co_await timer.async_wait(asio::deferred);
}

my::field_view field(value const& v) {
    if (auto const* const n = std::get_if<std::int64_t>(&v))
        return my::field_view(*n);
    if (auto const* const d = std::get_if<double>(&v))
        return my::field_view(*d);
    if (auto const* const s = std::get_if<std::string>(&v))
        return my::field_view(*s);
    return {};
}

// A transaction on a connection. If it is left before its end, the connection is closed, and the server rolls it back.
class transaction {
public:
    transaction(insertion const& what, detail::database::connection connection)
        : what_(what), connection_(std::move(connection)) {}
    transaction(transaction const&) = delete;
    transaction& operator=(transaction const&) = delete;
    ~transaction() {
        if (is_open_ || session().is_broken())
            connection_.discard();
    }

    asio::awaitable<void> begin() {
        is_open_ = true;
        co_await say("start transaction");
    }
    asio::awaitable<void> roll_back() {
        co_await say("rollback");
        is_open_ = false;
    }
    asio::awaitable<void> commit() {
        auto const done = co_await session().execute("commit", what_.until);
        if (done.error)
            throw session().failure(done.error,
                                    "weir::mysql: the commit failed: the row may or may not have "
                                    "been inserted");
        is_open_ = false;
    }

    asio::awaitable<void> say(std::string_view text) {
        auto const done = co_await session().execute(text, what_.until);
        check(done.error);
    }
    asio::awaitable<void> sleep(microseconds time) {
        auto const text =
            fmt::format("do sleep({:.6f})", std::chrono::duration<double>(time).count());
        co_await say(std::string_view(text));
    }
    // Executes a statement on the row of the limiter.
    asio::awaitable<void> say(detail::statement_text const& text) {
        auto const done = co_await execute(text);
        check(done.error);
    }
    // Locks that row. Returns false if the server's limit for lock waits ends first.
    asio::awaitable<bool> lock() {
        auto const done = co_await execute(detail::lock_interval());
        if (done.error == my::common_server_errc::er_lock_wait_timeout)
            co_return false;
        check(done.error);
        co_return true;
    }
    // Executes the statement of the caller. Returns the error of the server.
    asio::awaitable<std::exception_ptr> insert() {
        std::vector<my::field_view> fields;
        for (auto const& v : what_.values)
            fields.push_back(field(v));
        auto const done = co_await session().execute_once(what_.sql, fields, what_.until);
        if (!done.error)
            co_return nullptr;
        if (session().is_broken() || is_end(done.error))
            check(done.error);
        co_return std::make_exception_ptr(session().failure(done.error));
    }

    // Returns the wait that the locked row of the limiter gives; none if there is no row.
    [[nodiscard]] std::optional<microseconds> wait() const {
        auto const rows = session().result().rows();
        if (rows.empty())
            return std::nullopt;
        return microseconds(rows.at(0).at(0).as_int64());
    }

private:
    [[nodiscard]] detail::session& session() const noexcept { return **connection_; }

    asio::awaitable<detail::outcome> execute(detail::statement_text const& text) {
        auto const fields =
            detail::bound(text, what_.name, [this](auto) { return what_.every.count(); });
        co_return co_await session().execute(text, fields, what_.until);
    }

    void check(error_code const& ec) const {
        if (ec)
            std::rethrow_exception(failure_for(what_, session(), ec));
    }

    insertion const& what_;
    detail::database::connection connection_;
    bool is_open_ = false;
};

// The statement can book up to nine minutes ahead.
constexpr microseconds longest_booking = std::chrono::minutes(8);

// Waits for a connection. An attempt to connect that fails is repeated, except if the store is misconfigured.
asio::awaitable<detail::database::connection> connect(insertion const& what) {
    for (;;) {
        duration pause{};
        try {
            auto const until = std::min(what.until, clock::now() + std::chrono::seconds(1));
            co_return co_await what.database->checkout(until, duration::zero());
        } catch (weir::detail::sql::connection_failure const& e) {
            if (e.kind == failure_kind::misconfigured || clock::now() >= what.until)
                throw;
            pause = e.again_in;
        } catch (rejection const& e) {
            if (e.code() != errc::timed_out || clock::now() >= what.until)
                throw;
        }
        co_await pass(what, pause);
    }
}

// A booked turn, which only determines when to begin: the transaction decides. A turn that was not used is given back,
// so that it delays no other process.
class turn {
public:
    explicit turn(insertion const& what)
        : what_(what), name_(what.name + ":turns"), bucket_(bucket_of(what)) {}
    turn(turn const&) = delete;
    turn& operator=(turn const&) = delete;
    ~turn() {
        if (since_ != 0)
            give_back();
    }

    // Books the next turn, and returns the time until it comes. Throws `rejection` if that is after the patience. A turn
    // that is too far ahead is not booked.
    asio::awaitable<microseconds> book() {
        auto connection = co_await connect(what_);
        auto& session = **connection;
        auto const rest = std::chrono::floor<microseconds>(
            std::min<clock::duration>(what_.until - clock::now(), longest_booking));
        policy::fed::question const q{
            .bucket = bucket_, .ahead = std::max(rest, microseconds::zero())};
        auto const fields = detail::bound(detail::take(), name_, [&q](auto parameter) {
            return detail::value_of(parameter, q);
        });
        auto const done = co_await session.execute(detail::take(), fields, what_.until);
        if (done.error) {
            auto const failure = failure_for(what_, session, done.error);
            if (session.is_broken())
                connection.discard();
            std::rethrow_exception(failure);
        }
        auto const id = session.result().last_insert_id();
        auto const about = session.about();
        auto const said = detail::answer_of(id, q, about);
        if (auto const now = detail::time_of(id, about))
            session.note_time(*now);
        since_ = said.granted != 0 ? said.since : 0;
        if (said.wait > what_.until - clock::now())
            throw rejection(errc::deadline_unreachable, std::max(said.wait - slack, slack));
        co_return said.wait;
    }
    [[nodiscard]] bool is_booked() const noexcept { return since_ != 0; }
    void use() noexcept { since_ = 0; }

private:
    // Two milliseconds more than the interval: otherwise the transactions would fall behind the turns.
    static constexpr microseconds slack = std::chrono::milliseconds(2);
    static policy::shared_bucket bucket_of(insertion const& what) {
        return {.permit = (what.every + slack).count()};
    }
    void give_back() noexcept {
        try {
            what_.database->give_back(name_, {.bucket = bucket_,
                                              .count = 1,
                                              .since = since_,
                                              .timeout = std::chrono::seconds(1)});
        } catch (...) {
            // Then the turn is lost.
        }
    }

    insertion const& what_;
    std::string name_;
    policy::shared_bucket bucket_;
    std::int64_t since_ = 0;
};

// Inserts the row, or returns how long to wait before the next turn can be booked.
asio::awaitable<std::optional<microseconds>> attempt(insertion const& what, turn& mine) {
    auto const soon = std::min<microseconds>(what.every / 4, std::chrono::milliseconds(100));
    auto connection = co_await connect(what);
    transaction t(what, std::move(connection));
    for (bool begins = true;;) {
        if (std::exchange(begins, false))
            co_await t.begin();
        bool const is_locked = co_await t.lock();
        if (!is_locked) {
            co_await t.roll_back();
            begins = true;
            continue;
        }
        auto const wait = t.wait();
        if (wait && *wait <= microseconds::zero())
            break;
        if (wait && *wait <= soon && *wait <= what.until - clock::now()) {
            co_await t.sleep(*wait);  // under the lock, which no other process needs yet
            continue;
        }
        if (wait && *wait > what.every) {  // the clock was set back
            co_await t.say(detail::stamp_interval());
            co_await t.commit();
            co_return what.every;
        }
        co_await t.roll_back();
        if (wait)
            co_return wait;
        co_await t.say(detail::make_interval());  // outside the transaction, so it leaves no lock
        begins = true;
    }
    auto const failed = co_await t.insert();
    if (failed) {
        co_await t.roll_back();
        std::rethrow_exception(failed);
    }
    co_await t.say(detail::stamp_interval());
    mine.use();
    co_await t.commit();
    co_return std::nullopt;
}

// Inserts the row in its turn. An attempt that breaks before the commit is repeated, while there is patience. Of two
// transactions in a deadlock the server rolls one back; it is tried again once.
asio::awaitable<void> insert_in_turn(insertion what) {
    constexpr microseconds pause_after_failure = std::chrono::milliseconds(10);
    for (bool was_deadlock = false;;) {
        std::exception_ptr failure;
        auto pause = pause_after_failure;
        try {
            turn mine(what);
            auto const early = co_await mine.book();
            if (mine.is_booked()) {
                co_await pass(what, early);
                auto const again = co_await attempt(what, mine);
                if (!again)
                    co_return;
                pause = *again;
            } else {
                pause = early - longest_booking / 2;
            }
        } catch (interrupted const&) {
            failure = std::current_exception();
        } catch (boost::system::system_error const& e) {
            if (!detail::session::is_conflict(e.code()) || std::exchange(was_deadlock, true))
                throw;
            failure = std::current_exception();
        }
        bool const is_over = pause > what.until - clock::now();
        if (is_over && failure)
            std::rethrow_exception(failure);
        if (is_over)
            throw rejection(errc::deadline_unreachable, pause);
        co_await pass(what, pause);
    }
}

}  // namespace

// NOLINTNEXTLINE(performance-unnecessary-value-param): as in all constructors with a store
strict_interval::strict_interval(asio::any_io_executor ex, std::shared_ptr<store> e,
                                 std::string name, duration every, queue_options const& queueing)
    : name_(std::move(name)), every_(every), line_(ex, {.seats = 1}, queueing) {
    using namespace std::chrono_literals;
    weir::detail::check_shared("strict_interval", e.get(), name_);
    weir::detail::check_option("strict_interval", "length of name in bytes",
                               static_cast<std::int64_t>(name_.size()), 1, 249);
    weir::detail::check_duration(
        "strict_interval", "every", every, std::chrono::microseconds(1), duration(24h * 3650));
    database_ = e->database_;
}

asio::awaitable<void> strict_interval::insert_at_most(std::string sql, std::vector<value> values,
                                                      patience wait) {
    auto const length = wait.length_or(line_.queueing().patience.length_or(forever));
    auto const now = clock::now();
    auto const until =
        length >= clock::time_point::max() - now ? clock::time_point::max() : now + length;
    auto const turn = co_await line_.async_enter(wait);
    insertion const what{
        database_,         name_, std::chrono::ceil<microseconds>(every_), std::move(sql),
        std::move(values), until};
    auto task = insert_in_turn(what);
    auto const strand = database_->make_strand();
    co_await asio::co_spawn(strand, std::move(task), asio::deferred);
}

}  // namespace weir::inline v0_2::mysql
