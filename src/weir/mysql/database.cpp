#include "database.hpp"

#include "statements.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/mysql/common_server_errc.hpp>
#include <boost/mysql/error_categories.hpp>
#include <boost/mysql/field_view.hpp>

#include <exception>
#include <utility>
#include <vector>

namespace weir::mysql::detail {
namespace {

namespace asio = boost::asio;
namespace my = boost::mysql;

// Of an order.
template <class Order>
std::vector<my::field_view> bound_to(statement_text const& text, std::string const& name,
                                     Order const& order) {
    return bound(text, name, [&](statement_text::parameter p) { return value_of(p, order); });
}

asio::awaitable<std::unique_ptr<session>> make_session(asio::any_io_executor ex,
                                                       std::shared_ptr<settings> s) {
    auto made = std::make_unique<session>(ex, std::move(s));
    co_await made->connect();
    co_return made;
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
      connections_(
          ex, [s = settings_](asio::any_io_executor const& home) { return make_session(home, s); },
          [](std::unique_ptr<session>& one) { return check_session(*one); },
          {.maximum = o.connections,
           .check_after = std::chrono::seconds(10),
           .make_within = o.connect_within}) {}

asio::awaitable<database::connection> database::checkout(clock::time_point until,
                                                         duration statement) {
    auto [ec, given] =
        co_await connections_.async_checkout_until(until, asio::as_tuple(asio::deferred));
    if (ec) {
        if (auto const why = given.failure())
            std::rethrow_exception(why);
        throw boost::system::system_error(ec, "weir::mysql");
    }
    auto const limited = co_await (*given)->limit_statements(statement, until);
    if (limited.error) {
        given.discard();
        throw boost::system::system_error(limited.error, "weir::mysql");
    }
    co_return std::move(given);
}

asio::awaitable<database::reply> database::ask(std::shared_ptr<database> self, std::string name,
                                               weir::engine::question q) {
    co_await asio::post(asio::deferred);  // never inside of whoever asks
    auto const until = clock::now() + q.deadline;
    connection given;
    try {
        given = co_await self->checkout(until, q.deadline);
    } catch (boost::system::system_error const& e) {
        co_return reply{e.code(), {}};
    }
    auto& one = **given;
    bool const is_log = q.bucket.window != 0;
    auto const& text = is_log ? detail::take_of_log() : detail::take();
    auto const values = bound_to(text, name, q);
    auto done = co_await one.execute(text, values, until);
    if (is_deadlock(done.error))
        done = co_await one.execute(text, values, until);
    if (one.is_broken())
        given.discard();
    if (done.error)
        co_return reply{done.error, {.lost = done.lost}};
    auto const id = one.result().last_insert_id();
    auto const about = one.about();
    if (auto const now = time_of(id, about); now && !is_log)  // a log has a time of its own
        one.note_time(*now);
    co_return reply{error_code(), answer_of(id, q, about)};
}

void database::take(std::string name, weir::engine::question const& q,
                    weir::engine::answer_handler handler) {
    asio::co_spawn(
        asio::make_strand(executor_), ask(shared_from_this(), std::move(name), q),
        [handler = std::move(handler)](std::exception_ptr const& failure, reply const& r) mutable {
            if (failure)  // no memory
                std::move(handler)(asio::error::no_memory, weir::engine::answer{.lost = true});
            else
                std::move(handler)(r.error, r.said);
        });
}

asio::awaitable<void> database::return_to(std::shared_ptr<database> self, std::string name,
                                          weir::engine::give_back what) {
    co_await asio::post(asio::deferred);
    auto const until = clock::now() + what.deadline;
    auto given = co_await self->checkout(until, what.deadline);
    auto& one = **given;
    auto const& text = what.bucket.window != 0 ? detail::give_back_to_log() : detail::give_back();
    auto const values = bound_to(text, name, what);
    co_await one.execute(text, values, until);  // once, whatever comes of it
    if (one.is_broken())
        given.discard();
}

void database::give_back(std::string name, weir::engine::give_back const& what) {
    asio::co_spawn(asio::make_strand(executor_),
                   return_to(shared_from_this(), std::move(name), what),
                   [](std::exception_ptr const&) {});  // then it counts as used
}

asio::awaitable<void> database::install() {
    // On a connection of its own, so that whatever is wrong is said at once.
    session one(executor_, settings_);
    co_await one.connect();
    for (auto const table : {create_table(), create_log_table()}) {
        auto const done = co_await one.execute(table, clock::time_point::max());
        if (done.error)
            throw boost::system::system_error(done.error, "weir::mysql: " + one.text_of_error());
    }
}

}  // namespace weir::mysql::detail
