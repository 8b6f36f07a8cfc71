// A pool of connections to a MariaDB or MySQL server, with Boost.MySQL. Twelve workers increment one row and share four
// connections. The server closes some connections, as it also closes connections that are idle for too long. A worker
// that gets a closed connection discards it and checks out another one, which the pool creates if necessary. The pool
// pings a connection that was idle for 10 seconds before it hands it out.
//     example_12_pool_mysql --socket /run/mysqld/mysqld.sock --user me --database test
//     g++ -std=c++20 12_pool_mysql.cpp -o 12_pool_mysql $(pkg-config --cflags --libs weir-mysql)

#include <weir/format.hpp>
#include <weir/weir.hpp>

#include <boost/asio.hpp>
#include <boost/mysql.hpp>

#include <map>

namespace asio = boost::asio;
namespace mysql = boost::mysql;
using namespace std::chrono_literals;
using asio::use_awaitable;
using connection = mysql::unix_connection;

// Calls `f` with a connection, and with another one if the server has closed it.
template <class F>
asio::awaitable<void> use(weir::pool<connection>& connections, F& f) {
    for (;;) {
        auto one = co_await connections.checkout(5s);
        try {
            co_await f(*one);
            co_return;  // the lease returns the connection to the pool
        } catch (boost::system::system_error const& e) {
            fmt::print("{}\n", e.what());
            one.discard();
        }
    }
}

asio::awaitable<void> add_one(weir::pool<connection>& connections, int number, weir::permit) {
    auto add = [number](connection& c) -> asio::awaitable<void> {
        mysql::results done;
        co_await c.async_execute("update counter set n = n + 1", done, use_awaitable);
        if (number % 3 == 0)  // closes the connection; the pool does not notice
            co_await c.async_execute("kill connection_id()", done, asio::as_tuple(use_awaitable));
    };
    co_await use(connections, add);
}

// Returns the number in the row after `workers` workers have incremented it.
asio::awaitable<int> work(weir::pool<connection>& connections, int workers) {
    auto prepare = [](connection& c) -> asio::awaitable<void> {
        mysql::results none;
        for (std::string const text : {"create table if not exists counter(n int)",
                                       "delete from counter", "insert into counter values(0)"})
            co_await c.async_execute(text, none, use_awaitable);
    };
    co_await use(connections, prepare);
    auto const ex = co_await asio::this_coro::executor;
    weir::seats at_work(ex, {.seats = workers});
    for (int number = 1; number <= workers; ++number)
        co_spawn(ex, add_one(connections, number, at_work.try_enter()), asio::detached);
    co_await at_work.async_drain(use_awaitable);

    mysql::results found;
    auto read = [&found](connection& c) -> asio::awaitable<void> {
        co_await c.async_execute("select n from counter", found, use_awaitable);
    };
    co_await use(connections, read);
    co_return static_cast<int>(found.rows().at(0).at(0).as_int64());
}

int main(int argc, char* argv[]) {
    std::map<std::string, std::string> given{{"--socket", "/run/mysqld/mysqld.sock"}};
    for (int i = 1; i + 1 < argc; i += 2)
        given[argv[i]] = argv[i + 1];

    asio::io_context context;
    auto connect = [&](asio::any_io_executor ex) -> asio::awaitable<connection> {
        connection made(ex);
        asio::local::stream_protocol::endpoint const socket(given["--socket"]);
        mysql::handshake_params const who(
            given["--user"], given["--password"], given["--database"]);
        co_await made.async_connect(socket, who, use_awaitable);
        co_return made;
    };
    auto ping = [](connection& one) -> asio::awaitable<bool> {
        co_await one.async_ping(use_awaitable);
        co_return true;
    };
    weir::pool<connection> connections(context, connect, ping, {.max = 4, .check_after = 10s});

    int counted = 0;
    co_spawn(context, work(connections, 12), [&](std::exception_ptr failure, int n) {
        connections.close();
        counted = n;
        if (failure)
            std::rethrow_exception(failure);
    });
    context.run();
    fmt::print("12 workers, and the row has {}; {}\n", counted, connections.stats());
    return counted == 12 ? 0 : 1;
}
