#include "session.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/this_coro.hpp>

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>

// How a session connects. libpq resolves names in a call that blocks, and leaves time limits to its caller here: so
// each address is one attempt, and names are resolved by Asio.

namespace weir::inline v0_2::postgres::detail {
namespace {

namespace asio = boost::asio;

constexpr int first_version = 120'000;

bool is_lasting(connect_error const& e) {
    return kind_of(e.code) == failure_kind::misconfigured;
}

}  // namespace

asio::awaitable<std::vector<target>> session::resolve(clock::time_point until) {
    auto const strand = co_await asio::this_coro::executor;
    auto const state = co_await asio::this_coro::cancellation_state;
    asio::ip::tcp::resolver resolver(strand);
    std::vector<target> all;
    for (auto const& one : settings_->targets()) {
        if (!one.is_name()) {
            all.push_back(one);
            continue;
        }
        time_limit const limit(strand, state, until);
        auto const [ec, found] = co_await resolver.async_resolve(
            one.host, "0", limit.bound(asio::as_tuple(asio::deferred)));
        if (auto const error = limit.outcome(ec)) {
            error_ = {error, fmt::format("{}: {}", one.text(), error.message())};
            continue;
        }
        for (auto const& entry : found) {
            all.push_back(one);
            all.back().address = entry.endpoint().address().to_string();
        }
    }
    co_return all;
}

// libpq may replace its socket in each step.
asio::awaitable<error_code> session::negotiate(time_limit const& limit) {
    auto next = PGRES_POLLING_WRITING;
    while (PQstatus(connection_.get()) != CONNECTION_BAD) {
        error_code ec;
        static_cast<void>(socket_.assign(PQsocket(connection_.get()), ec));
        if (!ec)
            ec = co_await wait(next == PGRES_POLLING_READING
                                   ? asio::posix::descriptor_base::wait_read
                                   : asio::posix::descriptor_base::wait_write,
                               limit);
        if (ec)
            co_return ec;
        socket_.release();
        next = PQconnectPoll(connection_.get());
        if (next == PGRES_POLLING_FAILED)
            break;
        if (next == PGRES_POLLING_OK) {
            static_cast<void>(socket_.assign(PQsocket(connection_.get()), ec));
            co_return ec;
        }
    }
    co_return make_sqlstate("08001");
}

asio::awaitable<connect_error> session::open(target const& to, clock::time_point until) {
    close();
    to_ = to;
    auto const parameters = settings_->parameters_of(to);
    std::vector<char const*> keywords;
    std::vector<char const*> values;
    for (auto const& [keyword, value] : parameters) {
        keywords.push_back(keyword.c_str());
        values.push_back(value.c_str());
    }
    keywords.push_back(nullptr);
    values.push_back(nullptr);
    connection_.reset(PQconnectStartParams(keywords.data(), values.data(), 0));
    if (!connection_)
        co_return connect_error{asio::error::no_memory, "no memory"};
    PQsetErrorVerbosity(connection_.get(), PQERRORS_VERBOSE);
    PQsetNoticeReceiver(connection_.get(), &session::on_notice, this);

    auto const strand = co_await asio::this_coro::executor;
    auto const state = co_await asio::this_coro::cancellation_state;
    time_limit const limit(strand, state, until);
    auto const ec = co_await negotiate(limit);
    if (!ec) {
        PQsetErrorVerbosity(connection_.get(), PQERRORS_DEFAULT);
        PQsetnonblocking(connection_.get(), 1);
        co_return connect_error{};
    }
    if (ec.category() != sqlstate_category())
        co_return connect_error{ec, fmt::format("{}: {}", to.text(), ec.message())};
    co_return parse_connect_error(PQerrorMessage(connection_.get()));
}

asio::awaitable<void> session::connect() {
    auto const until = settings_->connect_until();
    auto const all = co_await resolve(until);
    auto left = std::ssize(all);
    std::string texts = std::exchange(error_.text, {});
    auto last = error_.code;
    for (auto const& one : all) {
        auto const now = clock::now();
        auto const share = (until - now) / left--;  // each remaining address gets an equal part
        auto const failed = co_await open(one, now + share);
        if (!failed.code) {
            co_await set_up(until);
            co_return;
        }
        texts.append(texts.empty() ? "" : "; ").append(failed.text);
        // Only if all addresses reject the options are the options wrong.
        if (!last || !is_lasting(failed))
            last = failed.code;
    }
    throw boost::system::system_error(last, "weir::postgres: connect: " + texts);
}

asio::awaitable<void> session::set_up(clock::time_point until) {
    if (PQserverVersion(connection_.get()) < first_version)
        throw boost::system::system_error(
            asio::error::operation_not_supported,
            "weir::postgres: " + address() + ": PostgreSQL 12 or later is required");
    // The server's defaults for new sessions are unknown. Each statement is its own transaction, and sees all changes
    // that were saved before it.
    constexpr std::string_view text =
        "set default_transaction_isolation = 'read committed'; "
        "set default_transaction_deferrable = off; "
        "set plan_cache_mode = 'force_generic_plan'; "
        "set lock_timeout = 0";
    auto const done = co_await execute(text, until);
    if (done.error)
        throw failure(done.error, where);
}

std::string session::address() const {
    auto const text = to_.text();
    auto const* const version =
        connection_ ? PQparameterStatus(connection_.get(), "server_version") : nullptr;
    return version ? fmt::format("{} (PostgreSQL {})", text, version) : text;
}

}  // namespace weir::inline v0_2::postgres::detail
