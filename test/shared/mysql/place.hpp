#pragma once

#include <weir/mysql/store.hpp>
#include <weir/shared/seat_ledger.hpp>

#include "shared/mysql/server.hpp"
#include "shared/mysql/sql.hpp"
#include "shared/place.hpp"
#include "shared/seats/record.hpp"
#include "support/rethrow.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace support {

/// One server for all tests of a program, because a start takes seconds.
inline mariadb_server& server() {
    static mariadb_server one({"--max-connections=40", "--innodb-lock-wait-timeout=1000"});
    return one;
}

inline weir::mysql::options login() {
    return {.socket = server().socket(), .user = "root", .database = "weir"};
}

/// A store at a server, with its tables, and a session to look at it. It logs in as `app`, a user with only the
/// necessary privileges.
struct mysql_place : any_place {
    using server_type = mariadb_server;
    static constexpr auto& if_here = if_mariadb_is_here;

    server_type& home;
    sql_session session{home.socket()};
    std::shared_ptr<weir::mysql::store> store;

    explicit mysql_place(server_type& s = server()) : home(s) {
        session.query("create user if not exists app@localhost");
        session.query("grant create, select, insert, update on weir.* to app@localhost");
        store = at(ctx, address());
        boost::asio::co_spawn(ctx, store->install(), rethrow);
        run();
    }

    static std::string address_of(std::string socket) { return socket; }
    [[nodiscard]] std::string address() const { return home.socket(); }
    static std::shared_ptr<weir::mysql::store> at(boost::asio::io_context& where,
                                                  std::string address) {
        return std::make_shared<weir::mysql::store>(
            where,
            weir::mysql::options{.socket = std::move(address), .user = "app", .database = "weir"});
    }
    [[nodiscard]] std::shared_ptr<weir::store> connect(boost::asio::io_context& where) const {
        return at(where, address());
    }
    static std::vector<std::string> saves() { return {}; }

    [[nodiscard]] bool has(std::string const& name) {
        return session.number("select count(*) from weir_bucket where k = " + quoted(name)) == 1;
    }
    [[nodiscard]] weir::amount used(std::string const& name) {
        return session.number(
            "select ceiling(level / permit) from weir_bucket where k = " + quoted(name));
    }
    void kill_connections() { kill_others(session, "connection", "user = 'app'"); }
    [[nodiscard]] seats_record look(std::string const& name) {
        auto const rows =
            session.query("select timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)), "
                          "convert(state using utf8mb4) from weir_seats where k = " +
                          quoted(name));
        if (rows.empty())
            return {};
        auto const ledger = weir::detail::seat_ledger::parse(rows[0][1]);
        BOOST_TEST_REQUIRE(ledger.has_value());
        return {std::stoll(rows[0][0]), *ledger};
    }

private:
    static std::string quoted(std::string const& bytes) {
        std::string hex;
        for (char const c : bytes)
            hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
        return "x'" + hex + "'";
    }
};

}  // namespace support
