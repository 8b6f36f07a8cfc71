#include "session.hpp"

#include "../check_option.hpp"
#include "../sql/time_limit.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/mysql/common_server_errc.hpp>
#include <boost/mysql/error_categories.hpp>
#include <boost/mysql/handshake_params.hpp>
#include <boost/mysql/mariadb_server_errc.hpp>

#include <fmt/format.h>

#include <utility>

namespace weir::inline v0_2::mysql::detail {
namespace {

namespace asio = boost::asio;
namespace my = boost::mysql;
using weir::detail::sql::time_limit;

// Whether the server replied with this error. Every other error comes from the connection, or from invalid data on it.
bool is_of_server(error_code const& ec) {
    return ec.category() == my::get_common_server_category() ||
           ec.category() == my::get_mysql_server_category() ||
           ec.category() == my::get_mariadb_server_category();
}

my::ssl_mode mode_of(options const& o) {
    if (o.tls == tls::required || !o.authorities.empty())
        return my::ssl_mode::require;
    return o.tls == tls::never || !o.socket.empty() ? my::ssl_mode::disable : my::ssl_mode::enable;
}

}  // namespace

settings::settings(options o) : given(std::move(o)), tls(asio::ssl::context::tls_client) {
    using weir::detail::check_duration;
    using weir::detail::check_option;
    check_option("mysql", "max_connections", given.max_connections, 1, 10'000);
    check_duration("mysql", "connect_timeout", given.connect_timeout, duration(1));
    policy::validate("mysql", given.retry);
    if (given.authorities.empty())
        return;
    tls.load_verify_file(given.authorities);
    tls.set_verify_mode(asio::ssl::verify_peer);
    tls.set_verify_callback(asio::ssl::host_name_verification(given.host));
}

std::chrono::steady_clock::time_point settings::connect_until() const {
    using clock = std::chrono::steady_clock;
    auto const now = clock::now();
    return given.connect_timeout < clock::time_point::max() - now
               ? now + given.connect_timeout
               : clock::time_point::max();
}

session::session(asio::any_io_executor const& ex, std::shared_ptr<settings> s)
    : settings_(std::move(s)), connection_(ex, settings_->tls) {}

asio::awaitable<void> session::open() {
    auto const& o = settings_->given;
    auto& socket = connection_.stream().lowest_layer();
    if (!o.socket.empty()) {
        asio::local::stream_protocol::endpoint const path(o.socket);
        asio::generic::stream_protocol::endpoint const to(path);
        auto const [ec] = co_await socket.async_connect(to, asio::as_tuple(asio::deferred));
        if (ec)
            throw failure(ec);
        co_return;
    }
    auto const until = settings_->connect_until();
    using asio::ip::tcp;
    auto const strand = co_await asio::this_coro::executor;
    auto const state = co_await asio::this_coro::cancellation_state;
    tcp::resolver resolver(strand);
    auto const found =
        co_await resolver.async_resolve(o.host, std::to_string(o.port), asio::deferred);
    error_code failure = asio::error::host_not_found;
    auto left = static_cast<std::int64_t>(found.size());
    for (auto const& entry : found) {
        socket.close();
        asio::generic::stream_protocol::endpoint const to(entry.endpoint());
        auto const now = clock::now();
        auto const share = (until - now) / left--;  // each remaining address gets an equal part
        time_limit const limit(strand, state, now + share);
        auto const [ec] =
            co_await socket.async_connect(to, limit.bound(asio::as_tuple(asio::deferred)));
        failure = limit.outcome(ec);
        if (!ec)
            break;
    }
    if (failure)
        throw boost::system::system_error(failure, "weir::mysql: connect to " + address());
    socket.set_option(tcp::no_delay(true));
}

asio::awaitable<void> session::connect() {
    auto const& o = settings_->given;
    co_await open();
    my::handshake_params const params(
        o.user, o.password, o.database, my::handshake_params::default_collation, mode_of(o));
    auto const [ec] =
        co_await connection_.async_handshake(params, diagnostics_, asio::as_tuple(asio::deferred));
    if (ec)
        throw failure(ec);

    // The server's defaults for new sessions are unknown. These two modes change the meaning of empty strings.
    co_await must_execute(
        "set time_zone = '+00:00', autocommit = 1, completion_type = 0, "
        "sql_mode = replace(replace(@@sql_mode, 'EMPTY_STRING_IS_NULL', ','), 'ORACLE', ',')");
    auto const text = fmt::format("select version(), {0}, sleep(0.002) + {0}", now_text);
    co_await must_execute(text);
    auto const row = result_.rows().at(0);
    version_ = row.at(0).as_string();
    is_mariadb_ = version_.find("MariaDB") != std::string::npos;
    note_time(row.at(1).as_int64());
    if (row.at(1).as_int64() == row.at(2).as_int64())
        throw boost::system::system_error(asio::error::operation_not_supported,
                                          "weir::mysql: the server option --sysdate-is-now is not "
                                          "supported");
    if (is_mariadb_)  // for a client that is stopped during a transaction
        co_await must_execute("set idle_transaction_timeout = 5");
}

asio::awaitable<void> session::must_execute(std::string_view text) {
    auto const [ec] = co_await connection_.async_execute(
        text, result_, diagnostics_, asio::as_tuple(asio::deferred));
    if (ec)
        throw failure(ec);
}

asio::awaitable<bool> session::is_alive() {
    auto const [ec] = co_await connection_.async_ping(diagnostics_, asio::as_tuple(asio::deferred));
    co_return !ec;
}

outcome session::note(error_code const& ec) noexcept {
    broken_ = broken_ || (ec && !is_of_server(ec));
    return {ec, broken_};
}

asio::awaitable<outcome> session::prepare(std::string_view text, my::statement& made,
                                          clock::time_point until) {
    auto const strand = co_await asio::this_coro::executor;
    auto const state = co_await asio::this_coro::cancellation_state;
    time_limit const limit(strand, state, until);
    auto const [ec, prepared] = co_await connection_.async_prepare_statement(
        text, diagnostics_, limit.bound(asio::as_tuple(asio::deferred)));
    made = prepared;
    auto const error = limit.outcome(ec);
    note(error);
    co_return outcome{error};  // it had no effect
}

asio::awaitable<outcome> session::execute(std::string_view text, clock::time_point until) {
    auto const strand = co_await asio::this_coro::executor;
    auto const state = co_await asio::this_coro::cancellation_state;
    time_limit const limit(strand, state, until);
    auto const [ec] = co_await connection_.async_execute(
        text, result_, diagnostics_, limit.bound(asio::as_tuple(asio::deferred)));
    co_return note(limit.outcome(ec));
}

asio::awaitable<outcome> session::execute(my::statement const& prepared,
                                          std::vector<my::field_view> const& values,
                                          clock::time_point until) {
    auto const strand = co_await asio::this_coro::executor;
    auto const state = co_await asio::this_coro::cancellation_state;
    time_limit const limit(strand, state, until);
    auto const [ec] = co_await connection_.async_execute(
        prepared.bind(values.begin(), values.end()), result_, diagnostics_,
        limit.bound(asio::as_tuple(asio::deferred)));
    co_return note(limit.outcome(ec));
}

asio::awaitable<outcome> session::execute(statement_text const& text,
                                          std::vector<my::field_view> const& values,
                                          clock::time_point until) {
    auto const found = prepared_.find(&text);
    return found != prepared_.end() ? execute(found->second, values, until)
                                    : prepare_and_execute(text, values, until);
}

asio::awaitable<outcome> session::prepare_and_execute(statement_text const& text,
                                                      std::vector<my::field_view> const& values,
                                                      clock::time_point until) {
    my::statement made;
    auto const done = co_await prepare(text.text(), made, until);
    if (done.error)
        co_return done;
    auto const& prepared = prepared_.emplace(&text, made).first->second;
    co_return co_await execute(prepared, values, until);
}

asio::awaitable<outcome> session::execute_once(
    std::string_view text, std::vector<my::field_view> const& values, clock::time_point until) {
    if (values.empty())
        co_return co_await execute(text, until);
    my::statement made;
    auto done = co_await prepare(text, made, until);
    if (done.error)
        co_return done;
    done = co_await execute(made, values, until);
    if (!broken_) {
        auto const strand = co_await asio::this_coro::executor;
        auto const state = co_await asio::this_coro::cancellation_state;
        time_limit const limit(strand, state, until);
        my::diagnostics ignored;
        auto const [unclosed] = co_await connection_.async_close_statement(
            made, ignored, limit.bound(asio::as_tuple(asio::deferred)));
        broken_ = static_cast<bool>(unclosed);
    }
    co_return done;
}

bool session::limits_statements(duration length) const noexcept {
    return !is_mariadb_ || length == limit_;
}

asio::awaitable<outcome> session::limit_statements(duration length, clock::time_point until) {
    auto const text = fmt::format(
        "set max_statement_time = {:.6f}", std::chrono::duration<double>(length).count());
    auto const done = co_await execute(std::string_view(text), until);
    if (!done.error)
        limit_ = length;
    co_return outcome{done.error};
}

std::string session::text() const {
    return std::string(std::string_view(diagnostics_.server_message()));
}

std::string session::address() const {
    auto const& o = settings_->given;
    auto text = o.socket.empty() ? fmt::format("{}:{}", o.host, o.port) : o.socket;
    return version_.empty() ? text : fmt::format("{} ({})", text, version_);
}

boost::system::system_error session::failure(error_code const& ec, std::string what) const {
    what.append(": ").append(address());
    if (auto const said = diagnostics_.server_message(); !said.empty())
        what.append(": ").append(said);
    return {ec, what};
}

std::int64_t session::about() const noexcept {
    auto const passed = clock::now() - time_read_;
    return time_ + std::chrono::duration_cast<std::chrono::microseconds>(passed).count();
}

void session::note_time(std::int64_t now) noexcept {
    time_ = now;
    time_read_ = clock::now();
}

}  // namespace weir::inline v0_2::mysql::detail
