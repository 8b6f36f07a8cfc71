// Measures the cost of grants by limiters in a MariaDB server, all of one row: 1, 8 and 32 connections, with one caller
// each. Floor: Boost.MySQL sends the same statement on as many connections.
//
// Also compares two former ways to write "one row every T", with T = 0 and 8 sessions: a unique number of the row
// (version 4 in test/shared/mysql/versions.cpp), and a lock of the newest row (version 5). Eight processes have a
// limiter each, so each grant needs a request to the store. It costs the server half of the two statements of version
// 4; the rest of the difference is the loss by sessions whose insertion comes second. Eight callers of one process
// share a request.

#include <weir/mysql/store.hpp>

#include "in_turns.hpp"
#include "shared/mysql/server.hpp"
#include "shared/mysql/sql.hpp"
#include "shared_callers.hpp"
#include "support/rethrow.hpp"
#include "weir/mysql/session.hpp"
#include "weir/mysql/statements.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/mysql/field_view.hpp>
#include <boost/mysql/handshake_params.hpp>
#include <boost/mysql/results.hpp>
#include <boost/mysql/statement.hpp>
#include <boost/mysql/unix.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
namespace my = boost::mysql;
namespace detail = weir::mysql::detail;
using bench::plenty;
using std::chrono::steady_clock;

/// Sends the statement with Boost.MySQL only.
class raw_client {
public:
    raw_client(std::string const& socket, int connections) {
        asio::local::stream_protocol::endpoint const path(socket);
        for (int i = 0; i != connections; ++i) {
            auto& one = connections_.emplace_back(ctx_);
            one.connect(path, my::handshake_params("root", "", "weir"));
            my::results ignored;
            one.execute("set time_zone = '+00:00', autocommit = 1", ignored);
            prepared_.push_back(one.prepare_statement(detail::take().text()));
        }
    }

    std::int64_t operator()(steady_clock::time_point until) {
        std::int64_t done = 0;
        for (std::size_t i = 0; i != connections_.size(); ++i)
            asio::co_spawn(ctx_, ask(i, until, done), support::rethrow);
        ctx_.restart();
        ctx_.run();
        return done;
    }

private:
    asio::awaitable<void> ask(std::size_t i, steady_clock::time_point until, std::int64_t& done) {
        weir::store::question const q{
            .bucket = weir::policy::shared_bucket::of(plenty), .ahead = 1s};
        std::string const name = "floor";
        my::results result;
        my::diagnostics diagnostics;
        while (steady_clock::now() < until) {
            std::vector<my::field_view> values;
            for (auto const p : detail::take().parameters())
                values.push_back(p == detail::statement_text::parameter::key
                                     ? my::field_view(name)
                                     : my::field_view(detail::value_of(p, q)));
            co_await connections_[i].async_execute(prepared_[i].bind(values.begin(), values.end()),
                                                   result, diagnostics, asio::deferred);
            done += result.last_insert_id() % 4 == 1;
        }
    }

    asio::io_context ctx_{1};
    std::deque<my::unix_connection> connections_;
    std::vector<my::statement> prepared_;
};

// Counts the rows inserted by eight sessions that try without a pause.
template <class Try>
auto version(std::string const& socket, Try attempt) {
    return [socket, attempt](steady_clock::time_point until) {
        std::atomic<std::int64_t> done = 0;
        std::vector<std::jthread> threads;
        for (int i = 0; i != 8; ++i)
            threads.emplace_back([&] {
                support::sql_session session(socket);
                while (steady_clock::now() < until)
                    done += attempt(session);
            });
        threads.clear();
        return done.load();
    };
}

bool version_4(support::sql_session& s) {
    auto const newest = s.query("select dup_id from ticks order by dup_id desc limit 1").at(0);
    try {
        s.insert("insert into ticks(dup_id, time) values(?, sysdate(6))",
                 {std::stoll(newest[0]) + 1});
        return true;
    } catch (support::sql_error const&) {
        return false;
    }
}

bool version_5(support::sql_session& s) {
    try {
        s.query("start transaction");
        s.query("select max(time) from ticks for update");
        s.query("insert into ticks(time) values(sysdate(6))");
        s.query("commit");
        return true;
    } catch (support::sql_error const&) {
        return false;  // a deadlock, which rolled back the transaction
    }
}

}  // namespace

int main(int argc, char** argv) {
    auto const length = bench::length_of_round(argc, argv, 1);
    support::mariadb_server const server({"--max-connections=100"});
    support::sql_session session(server.socket());
    session.query(detail::create_table());
    session.query("create table ticks(id bigint auto_increment primary key, dup_id bigint unique, "
                  "time datetime(6), index(time)) engine=innodb");
    session.query("insert into ticks(dup_id, time) values(1, sysdate(6))");
    constexpr int rounds = 5;
    weir::mysql::options where{.socket = server.socket(), .user = "root", .database = "weir"};
    auto const connect = [&](asio::io_context& ctx) {
        return std::make_shared<weir::mysql::store>(ctx, where);
    };
    auto const at_one_row = [](int limiters) {
        return std::vector<std::string>(static_cast<std::size_t>(limiters), "ours");
    };
    for (int const connections : {1, 8, 32}) {
        raw_client raw(server.socket(), connections);
        where.max_connections = connections;
        bench::shared_callers mine(connect, at_one_row(connections));
        bench::print(fmt::format("grants, {} connections", connections),
                     bench::in_turns(rounds, length, raw, mine));
    }
    where.max_connections = 8;
    bench::shared_callers processes(connect, at_one_row(8));
    bench::shared_callers process(connect, at_one_row(1), 8);
    auto const four = version(server.socket(), version_4);
    auto const five = version(server.socket(), version_5);
    bench::print("grants, and version 4, 8 processes",
                 bench::in_turns(rounds, length, four, processes));
    bench::print("grants, and version 4, 8 callers of one",
                 bench::in_turns(rounds, length, four, process));
    bench::print("grants, and version 5, 8 processes",
                 bench::in_turns(rounds, length, five, processes));
}
