#include <weir/mysql/strict_interval.hpp>

#include "../check_option.hpp"
#include "database.hpp"
#include "statements.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/mysql/common_server_errc.hpp>
#include <boost/mysql/field_view.hpp>

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
        if (session().is_broken())
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
        if (!ec)
            return;
        if (ec == asio::error::timed_out && clock::now() >= what_.until)
            throw rejection(errc::timed_out, std::nullopt);  // the server rolls everything back
        throw session().failure(ec);
    }

    insertion const& what_;
    detail::database::connection connection_;
    bool is_open_ = false;
};

// Inserts the row, or returns how long to wait.
asio::awaitable<std::optional<microseconds>> attempt(insertion const& what) {
    auto connection = co_await what.database->checkout(what.until, duration::zero());
    transaction t(what, std::move(connection));
    for (;;) {
        co_await t.begin();
        bool const is_locked = co_await t.lock();
        if (!is_locked) {
            co_await t.roll_back();
            continue;
        }
        auto const wait = t.wait();
        if (wait && *wait <= microseconds::zero())
            break;
        if (wait && *wait > what.every) {  // the clock was set back
            co_await t.say(detail::stamp_interval());
            co_await t.commit();
            co_return what.every;
        }
        co_await t.roll_back();
        if (wait)
            co_return wait;
        co_await t.say(detail::make_interval());  // outside the transaction, so it leaves no lock
    }
    auto const failed = co_await t.insert();
    if (failed) {
        co_await t.roll_back();
        std::rethrow_exception(failed);
    }
    co_await t.say(detail::stamp_interval());
    co_await t.commit();
    co_return std::nullopt;
}

// Of two transactions in a deadlock the server rolls one back; it is tried again.
asio::awaitable<std::optional<microseconds>> attempt_twice(insertion what) {
    try {
        co_return co_await attempt(what);
    } catch (boost::system::system_error const& e) {
        if (!detail::is_deadlock(e.code()))
            throw;
    }
    co_return co_await attempt(what);
}

}  // namespace

strict_interval::strict_interval(asio::any_io_executor ex, std::shared_ptr<store> e,
                                 std::string name, duration every, queue_options const& queueing)
    : name_(std::move(name)), every_(every), line_(ex, {.seats = 1}, queueing) {
    using namespace std::chrono_literals;
    weir::detail::check_shared("strict_interval", e.get(), name_);
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
    for (;;) {
        auto task = attempt_twice(what);
        auto const strand = database_->make_strand();
        auto const pause = co_await asio::co_spawn(strand, std::move(task), asio::deferred);
        if (!pause)
            co_return;
        if (*pause > until - clock::now())
            throw rejection(errc::deadline_unreachable, *pause);
        asio::steady_timer timer(co_await asio::this_coro::executor, *pause);
        co_await timer.async_wait(asio::deferred);
    }
}

}  // namespace weir::inline v0_2::mysql
