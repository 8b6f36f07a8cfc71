#include "session.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/this_coro.hpp>

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <utility>

namespace weir::inline v0_2::postgres::detail {
namespace {

namespace asio = boost::asio;
using parameter = statement_text::parameter;

// The identifiers of types in PostgreSQL.
constexpr Oid bytea = 17;
constexpr Oid bigint = 20;
constexpr Oid text_type = 25;

constexpr int binary = 1;

Oid type_of(parameter p) {
    return p == parameter::key ? bytea : p == parameter::state ? text_type : bigint;
}

// A bigint as libpq sends it: its bytes, the most significant one first.
using wire_number = std::array<char, 8>;

wire_number on_wire(std::int64_t number) {
    wire_number bytes{};
    auto rest = static_cast<std::uint64_t>(number);
    for (auto at = bytes.rbegin(); at != bytes.rend(); ++at, rest >>= 8)
        *at = static_cast<char>(rest);
    return bytes;
}

std::int64_t number_at(char const* bytes) {
    std::uint64_t number = 0;
    for (std::size_t i = 0; i != sizeof number; ++i)
        number = number << 8 | static_cast<unsigned char>(bytes[i]);
    return static_cast<std::int64_t>(number);
}

std::string_view field_of(PGresult const* result, char field) {
    auto const* const text = PQresultErrorField(result, field);
    return text ? text : "";
}

// Returns the values of the parameters: the name of the limiter, and the result of `value_of` for all others.
template <class F>
std::vector<session::argument> bound(statement_text const& text, std::string_view name,
                                     F value_of) {
    std::vector<session::argument> all;
    for (auto const p : text.parameters())
        all.push_back(
            p == parameter::key ? session::argument(name) : session::argument(value_of(p)));
    return all;
}

std::string first_line_of(std::string_view text) {
    return std::string(text.substr(0, text.find('\n')));
}

}  // namespace

session::session(asio::any_io_executor const& ex, std::shared_ptr<settings> s)
    : settings_(std::move(s)),
      saving_(settings_->is_durable() ? saving::now : saving::soon),
      socket_(ex) {}

session::~session() {
    close();
}

// Asio must forget the socket before libpq closes it.
void session::close() noexcept {
    if (socket_.is_open())
        socket_.release();
    result_.reset();
    connection_.reset();
    prepared_.clear();
    limit_ = -1;
}

asio::awaitable<outcome> session::prepare(statement_text const& text, clock::time_point until) {
    std::vector<Oid> types;
    for (auto const p : text.parameters())
        types.push_back(type_of(p));
    if (PQsendPrepare(connection_.get(), text.name(), text.text().c_str(),
                      static_cast<int>(types.size()), types.data()) == 0)
        co_return unsent();
    auto const done = co_await finish(until);
    if (!done.error)
        prepared_.insert(&text);
    co_return outcome{done.error};  // it had no effect
}

asio::awaitable<outcome> session::execute(
    statement_text const& text, std::vector<argument> const& with, clock::time_point until) {
    // The server may have closed the connection while it was idle.
    bool const is_open = PQconsumeInput(connection_.get()) != 0;
    static_cast<void>(PQisBusy(connection_.get()));  // reads its last message
    if (!is_open || is_ended_)
        co_return unsent();
    if (!prepared_.contains(&text)) {
        auto const done = co_await prepare(text, until);
        if (done.error)
            co_return done;
    }
    std::vector<wire_number> numbers(with.size());
    std::vector<char const*> bytes;
    std::vector<int> lengths;
    for (std::size_t i = 0; i != with.size(); ++i) {
        if (auto const* const string = std::get_if<std::string_view>(&with[i])) {
            bytes.push_back(string->data());
            lengths.push_back(static_cast<int>(string->size()));
        } else {
            numbers[i] = on_wire(std::get<std::int64_t>(with[i]));
            bytes.push_back(numbers[i].data());
            lengths.push_back(static_cast<int>(numbers[i].size()));
        }
    }
    std::vector<int> const formats(with.size(), binary);
    if (PQsendQueryPrepared(connection_.get(), text.name(), static_cast<int>(with.size()),
                            bytes.data(), lengths.data(), formats.data(), binary) == 0)
        co_return unsent();
    co_return co_await finish(until);
}

asio::awaitable<outcome> session::execute(std::string_view text, clock::time_point until) {
    if (PQsendQuery(connection_.get(), std::string(text).c_str()) == 0)
        co_return unsent();
    co_return co_await finish(until);
}

void session::on_notice(void* self, PGresult const* notice) {
    auto const severity = field_of(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
    if (severity == "FATAL" || severity == "PANIC")
        static_cast<session*>(self)->is_ended_ = true;
}

outcome session::unsent() {
    broken_ = true;
    text_ = is_ended_ ? "the server closed the connection"
                      : first_line_of(PQerrorMessage(connection_.get()));
    return {make_sqlstate("08006")};
}

// The results of a statement count when the server is ready for the next one: only then are they saved.
asio::awaitable<outcome> session::finish(clock::time_point until) {
    auto const strand = co_await asio::this_coro::executor;
    auto const state = co_await asio::this_coro::cancellation_state;
    time_limit const limit(strand, state, until);
    auto* const connection = connection_.get();
    text_.clear();
    result_.reset();
    error_code failed;
    int left = PQflush(connection);
    // A statement is small: the server reads all of it before it replies.
    while (left == 1 && !failed) {
        failed = co_await wait(asio::posix::descriptor_base::wait_write, limit);
        left = PQflush(connection);
    }
    error_code said;
    while (!failed && left == 0) {
        bool is_open = true;
        while (is_open && !failed && PQisBusy(connection) != 0) {
            failed = co_await wait(asio::posix::descriptor_base::wait_read, limit);
            is_open = PQconsumeInput(connection) != 0;
        }
        if (failed)
            break;
        std::unique_ptr<PGresult, clearer> next(PQgetResult(connection));
        if (!next)
            break;
        if (said)
            continue;  // the first error is the reason for all later ones
        said = error_in(*next);
        result_ = std::move(next);
    }
    broken_ = broken_ || failed || PQstatus(connection) != CONNECTION_OK;
    if (failed)
        co_return outcome{failed, true};
    if (!said && !result_) {
        broken_ = true;
        said = make_sqlstate("08006");
        text_ = first_line_of(PQerrorMessage(connection));
    }
    co_return outcome{said, said && broken_};
}

asio::awaitable<error_code> session::wait(asio::posix::descriptor_base::wait_type what,
                                          time_limit const& limit) {
    auto const [ec] =
        co_await socket_.async_wait(what, limit.bound(asio::as_tuple(asio::deferred)));
    co_return limit.outcome(ec);
}

error_code session::error_in(PGresult const& result) {
    auto const status = PQresultStatus(&result);
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK || status == PGRES_EMPTY_QUERY)
        return {};
    auto const state = field_of(&result, PG_DIAG_SQLSTATE);
    auto const message = field_of(&result, PG_DIAG_MESSAGE_PRIMARY);
    text_ = first_line_of(message.empty() ? PQresultErrorMessage(&result) : message);
    return make_sqlstate(state.empty() ? "08006" : state);
}

std::int64_t session::number(int column) const {
    return number_at(PQgetvalue(result_.get(), 0, column));
}

std::uint64_t session::affected_rows() const {
    std::string_view const text = PQcmdTuples(result_.get());
    std::uint64_t count = 0;
    std::from_chars(text.data(), text.data() + text.size(), count);
    return count;
}

bool session::limits_statements(duration length) const noexcept {
    return std::chrono::ceil<std::chrono::milliseconds>(length).count() == limit_;
}

asio::awaitable<outcome> session::limit_statements(duration length, clock::time_point until) {
    auto const limit = std::chrono::ceil<std::chrono::milliseconds>(length).count();
    auto const text = fmt::format("set statement_timeout = {}", limit);
    auto const done = co_await execute(std::string_view(text), until);
    if (!done.error)
        limit_ = limit;
    co_return outcome{done.error};
}

asio::awaitable<bool> session::is_alive() {
    auto const done = co_await execute(std::string_view(), clock::time_point::max());
    co_return !done.error;
}

asio::awaitable<outcome> session::take(std::string const& name, weir::store::question const& q,
                                       weir::store::answer& said, clock::time_point until) {
    auto const& text = q.bucket.window != 0 ? detail::take_of_log(saving_) : detail::take(saving_);
    auto const with = bound(text, name, [&](parameter p) { return value_of(p, q); });
    auto const done = co_await execute(text, with, until);
    if (!done.error)
        said = answer_of(number(0), number(1), number(2), *PQgetvalue(result_.get(), 0, 3) != 0);
    co_return done;
}

asio::awaitable<outcome> session::give_back(
    std::string const& name, weir::store::give_back const& what, clock::time_point until) {
    auto const& text =
        what.bucket.window != 0 ? detail::give_back_to_log(saving_) : detail::give_back(saving_);
    auto const with = bound(text, name, [&](parameter p) { return value_of(p, what); });
    co_return co_await execute(text, with, until);
}

asio::awaitable<outcome> session::read(std::string const& name, seats_row& row,
                                       clock::time_point until) {
    auto const& text = detail::read_seats();
    auto const with = bound(text, name, [](parameter) { return argument(); });
    auto const done = co_await execute(text, with, until);
    row = {};
    if (!done.error && PQntuples(result_.get()) != 0) {
        std::string_view const ledger(PQgetvalue(result_.get(), 0, 2),
                                      static_cast<std::size_t>(PQgetlength(result_.get(), 0, 2)));
        row = {.is_there = true,
               .now = number(0),
               .version = number(1),
               .ledger = weir::detail::seat_ledger::parse(ledger)};
    }
    co_return outcome{done.error};  // it had no effect
}

asio::awaitable<outcome> session::make(std::string const& name, clock::time_point until) {
    auto const& text = detail::make_seats();
    auto const with = bound(text, name, [](parameter) { return argument(); });
    co_return co_await execute(text, with, until);
}

asio::awaitable<outcome> session::write(std::string const& name, seats_row const& row,
                                        clock::time_point until) {
    auto const ledger = row.ledger->text();
    auto const& text = detail::write_seats();
    auto const with = bound(text, name, [&](parameter p) {
        return p == parameter::version ? argument(row.version) : argument(std::string_view(ledger));
    });
    co_return co_await execute(text, with, until);
}

boost::system::system_error session::failure(error_code const& ec, std::string what) const {
    what.append(": ").append(address());
    if (!text_.empty())
        what.append(": ").append(text_);
    return {ec, what};
}

failure_kind session::kind_of(error_code const& ec) noexcept {
    return detail::kind_of(ec);
}

bool session::is_conflict(error_code const& ec) {
    auto const state = sqlstate_of(ec);
    return state == "40P01" || state == "40001";
}

bool session::is_of_another_version(error_code const& ec) {
    return sqlstate_of(ec) == "42703";  // there is no such column
}

std::span<weir::detail::sql::table const> session::tables() noexcept {
    using weir::detail::sql::table;
    static std::array const all{
        table{.name = "weir_bucket",
              .look = "select k, at, level, permit, granted, wait, asked, is_new from weir_bucket "
                      "limit 0",
              .write = "insert into weir_bucket select * from weir_bucket where false on conflict "
                       "(k) do update set at = 0",
              .create = create_table()},
        table{.name = "weir_log",
              .look = "select k, at, ahead, grants, granted, wait, asked, is_new from weir_log "
                      "limit 0",
              .write = "insert into weir_log select * from weir_log where false on conflict (k) do "
                       "update set at = 0",
              .create = create_log_table()},
        table{.name = "weir_seats",
              .look = "select k, version, state from weir_seats limit 0",
              .write = "insert into weir_seats select * from weir_seats where false on conflict "
                       "(k) do update set version = 0",
              .create = create_seats_table()}};
    return all;
}

}  // namespace weir::inline v0_2::postgres::detail
