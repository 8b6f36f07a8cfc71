#pragma once

#include <weir/mysql/engine.hpp>

#include "shared/mysql/server.hpp"
#include "shared/mysql/sql.hpp"
#include "support/rethrow.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <memory>

namespace support {

/// One server for all tests of a program, since a start takes seconds.
inline mariadb_server& server() {
    static mariadb_server one({"--max-connections=40", "--innodb-lock-wait-timeout=1000"});
    return one;
}

inline weir::mysql::options login() {
    return {.socket = server().socket(), .user = "root", .database = "weir"};
}

/// An engine at that server, with its table, and a session to look at it. Each test has names of its own.
struct engine_fixture {
    boost::asio::io_context ctx;
    sql_session session{server().socket()};
    std::shared_ptr<weir::mysql::engine> engine =
        std::make_shared<weir::mysql::engine>(ctx, login());

    engine_fixture() {
        boost::asio::co_spawn(ctx, engine->install(), rethrow);
        run();
    }

    void run() {
        ctx.restart();
        ctx.run();
    }
};

}  // namespace support
