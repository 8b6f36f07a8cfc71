#include "bound.hpp"
#include "error.hpp"
#include "session.hpp"

#include <boost/mysql/blob_view.hpp>
#include <boost/mysql/common_server_errc.hpp>
#include <boost/mysql/error_categories.hpp>
#include <boost/mysql/field_view.hpp>

#include <array>
#include <span>
#include <string_view>
#include <vector>

// The questions to a session.

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

}  // namespace

asio::awaitable<outcome> session::take(std::string const& name, weir::store::question const& q,
                                       weir::store::answer& said, clock::time_point until) {
    bool const is_log = q.bucket.window != 0;
    auto const& text = is_log ? detail::take_of_log() : detail::take();
    auto const values = bound_to(text, name, q);
    auto const done = co_await execute(text, values, until);
    if (done.error)
        co_return done;
    auto const id = result_.last_insert_id();
    auto const estimate = about();
    if (auto const now = time_of(id, estimate); now && !is_log)  // a log has its own time
        note_time(*now);
    said = answer_of(id, q, estimate);
    said.is_new = affected_rows() == 1;  // the statement inserted the row
    co_return done;
}

asio::awaitable<outcome> session::give_back(
    std::string const& name, weir::store::give_back const& what, clock::time_point until) {
    auto const& text = what.bucket.window != 0 ? detail::give_back_to_log() : detail::give_back();
    auto const values = bound_to(text, name, what);
    co_return co_await execute(text, values, until);
}

asio::awaitable<outcome> session::read(std::string const& name, seats_row& row,
                                       clock::time_point until) {
    auto const& text = detail::read_seats();
    auto const fields = bound(text, name, [](auto) { return my::field_view(); });
    auto const done = co_await execute(text, fields, until);
    row = {};
    if (!done.error && !result_.rows().empty()) {
        auto const found = result_.rows().at(0);
        row = {.is_there = true,
               .now = found.at(0).as_int64(),
               .version = found.at(1).as_int64(),
               .ledger = weir::detail::seat_ledger::parse(text_of(found.at(2).as_blob()))};
    }
    co_return outcome{done.error};  // it had no effect
}

asio::awaitable<outcome> session::make(std::string const& name, clock::time_point until) {
    auto const& text = detail::make_seats();
    auto const fields = bound(text, name, [](auto) { return my::field_view(); });
    co_return co_await execute(text, fields, until);
}

asio::awaitable<outcome> session::write(std::string const& name, seats_row const& row,
                                        clock::time_point until) {
    auto const state = row.ledger->text();
    auto const& text = detail::write_seats();
    auto const fields = bound(text, name, [&](statement_text::parameter p) {
        if (p == statement_text::parameter::version)
            return my::field_view(row.version);
        return my::field_view(
            my::blob_view(reinterpret_cast<unsigned char const*>(state.data()), state.size()));
    });
    co_return co_await execute(text, fields, until);
}

failure_kind session::kind_of(error_code const& ec) noexcept {
    return detail::kind_of(ec);
}

bool session::is_conflict(error_code const& ec) noexcept {
    return ec == my::common_server_errc::er_lock_deadlock;
}

bool session::is_of_another_version(error_code const& ec) noexcept {
    return ec == my::common_server_errc::er_bad_field_error;
}

std::span<weir::detail::sql::table const> session::tables() noexcept {
    using weir::detail::sql::table;
    static std::array const all{
        table{.name = "weir_bucket",
              .look = "select k, at, level, permit from weir_bucket limit 0",
              .write =
                  "insert into weir_bucket(k, at, level, permit) select k, at, level, permit from "
                  "weir_bucket where false on duplicate key update at = 0",
              .create = create_table()},
        table{.name = "weir_log",
              .look = "select k, at, ahead, grants from weir_log limit 0",
              .write =
                  "insert into weir_log(k, at, ahead, grants) select k, at, ahead, grants from "
                  "weir_log where false on duplicate key update at = 0",
              .create = create_log_table()},
        table{.name = "weir_seats",
              .look = "select k, version, state from weir_seats limit 0",
              .write = "insert into weir_seats(k, version, state) select k, version, state from "
                       "weir_seats where false on duplicate key update version = 0",
              .create = create_seats_table()}};
    return all;
}

}  // namespace weir::inline v0_2::mysql::detail
