// A pool of connections to a MariaDB or MySQL server, with Boost.MySQL. Twelve workers increment one row and share four
// connections. The server closes some connections, as it also closes connections that are idle for too long. A worker
// that gets a closed connection discards it and checks out another one, which the pool creates if necessary. The pool
// pings a connection that was idle for 10 seconds before it hands it out.
//
//     example_12_pool_mysql --socket /run/mysqld/mysqld.sock --user me --database test
//
//     g++ -std=c++20 12_pool_mysql.cpp -o 12_pool_mysql $(pkg-config --cflags --libs weir-mysql)

#include <weir/format.hpp>
#include <weir/weir.hpp>

#include <boost/asio.hpp>
#include <boost/mysql.hpp>

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <string>
#include <string_view>

namespace asio = boost::asio;
namespace mysql = boost::mysql;
using namespace std::chrono_literals;
using asio::use_awaitable;

namespace {

struct place {
    std::string socket = "/run/mysqld/mysqld.sock";
    std::string user;
    std::string password;
    std::string database;
};

using connection = mysql::unix_connection;
using connection_pool = weir::pool<connection>;

asio::awaitable<connection> connect(asio::any_io_executor ex, place const& where) {
    connection made(ex);
    asio::local::stream_protocol::endpoint const socket(where.socket);
    mysql::handshake_params const who(where.user, where.password, where.database);
    co_await made.async_connect(socket, who, use_awaitable);
    co_return made;
}

asio::awaitable<bool> answers(connection& one) {
    co_await one.async_ping(use_awaitable);
    co_return true;
}

asio::awaitable<void> prepare(connection_pool& connections) {
    auto one = co_await connections.checkout(5s);
    for (std::string_view const text :
         {"create table if not exists weir_example(n int)", "delete from weir_example",
          "insert into weir_example values(0)"}) {
        mysql::results ignored;
        co_await one->async_execute(text, ignored, use_awaitable);
    }
}

// Returns the number of attempts.
asio::awaitable<int> add_one(connection_pool& connections, int number) {
    for (int tries = 1;; ++tries) {
        auto one = co_await connections.checkout(5s);
        try {
            mysql::results done;
            co_await one->async_execute("update weir_example set n = n + 1", done, use_awaitable);
            if (number % 3 == 0)  // closes the connection; the pool does not notice
                co_await one->async_execute(
                    "kill connection_id()", done, asio::as_tuple(use_awaitable));
            co_return tries;
        } catch (boost::system::system_error const& e) {
            fmt::print("worker {}: {}\n", number, e.what());
            one.discard();
        }
    }  // the lease returns the connection to the pool
}

asio::awaitable<int> sum(connection_pool& connections) {
    for (;;) {
        auto one = co_await connections.checkout(5s);
        try {
            mysql::results found;
            co_await one->async_execute("select n from weir_example", found, use_awaitable);
            co_return static_cast<int>(found.rows().at(0).at(0).as_int64());
        } catch (boost::system::system_error const&) {
            one.discard();
        }
    }
}

asio::awaitable<int> work(connection_pool& connections, int workers) {
    co_await prepare(connections);
    auto const ex = co_await asio::this_coro::executor;
    weir::seats at_work(ex, {.seats = workers});
    for (int number = 1; number <= workers; ++number) {
        auto task = [](connection_pool& c, int n, weir::permit) -> asio::awaitable<void> {
            co_await add_one(c, n);
        };
        co_spawn(ex, task(connections, number, at_work.try_enter()), asio::detached);
    }
    co_await at_work.async_drain(use_awaitable);
    co_return co_await sum(connections);
}

}  // namespace

int main(int argc, char* argv[]) {
    place where;
    for (int i = 1; i + 1 < argc; i += 2) {
        std::string_view const option = argv[i];
        (option == "--user"       ? where.user
         : option == "--password" ? where.password
         : option == "--database" ? where.database
                                  : where.socket) = argv[i + 1];
    }

    constexpr int workers = 12;
    asio::io_context context;
    auto make = [&where](asio::any_io_executor ex) { return connect(ex, where); };
    connection_pool connections(context, make, answers, {.max = 4, .check_after = 10s});
    int counted = 0;
    auto done = [&](std::exception_ptr failure, int n) {
        connections.close();
        counted = n;
        if (failure)
            std::rethrow_exception(failure);
    };
    try {
        co_spawn(context, work(connections, workers), done);
        context.run();
    } catch (std::exception const& e) {
        fmt::print(stderr, "{}\n", e.what());
        return 1;
    }
    fmt::print("{} workers, and the row has {}; {}\n", workers, counted, connections.stats());
    return counted == workers ? 0 : 1;
}
