#pragma once

#include <weir/postgres/store.hpp>
#include <weir/shared/seat_ledger.hpp>

#include "shared/place.hpp"
#include "shared/postgres/server.hpp"
#include "shared/seats/record.hpp"
#include "support/rethrow.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace support {

/// One server for all tests of a program, because a start takes seconds.
inline postgres_server& postgres() {
    static postgres_server one;
    return one;
}

/// A store at a server, with its tables, and a session to look at it. It logs in as `app`, a user with only the
/// necessary privileges.
struct postgres_place : any_place {
    using server_type = postgres_server;
    static constexpr auto& if_here = if_postgres_is_here;

    server_type& home;
    postgres_session session{home};
    std::shared_ptr<weir::postgres::store> store;

    explicit postgres_place(server_type& s = postgres()) : home(s) {
        if (session.query("select from pg_roles where rolname = 'app'").empty()) {
            session.query("create role app login");
            auto const owner = at(ctx, home.url("postgres"));
            boost::asio::co_spawn(ctx, owner->install(), rethrow);
            run();
            session.query(
                "grant select, insert, update on weir_bucket, weir_log, weir_seats to app");
        }
        // At a separate server, which a test may kill, nothing may be lost.
        store = at(ctx, address(), &s != &postgres());
        boost::asio::co_spawn(ctx, store->install(), rethrow);
        run();
    }

    static std::string address_of(std::string const& socket) {
        return postgres_url_of(socket, "app");
    }
    [[nodiscard]] std::string address() const { return home.url("app"); }
    static std::shared_ptr<weir::postgres::store> at(boost::asio::io_context& where,
                                                     std::string address, bool durable = false) {
        return std::make_shared<weir::postgres::store>(
            where, weir::postgres::options{.url = std::move(address), .durable = durable});
    }
    [[nodiscard]] std::shared_ptr<weir::store> connect(boost::asio::io_context& where) const {
        return at(where, address());
    }
    static std::vector<std::string> saves() { return {}; }

    [[nodiscard]] bool has(std::string const& name) {
        return session.number("select count(*) from weir_bucket where k = " + bytea_of(name)) == 1;
    }
    [[nodiscard]] weir::amount used(std::string const& name) {
        return session.number(
            "select ceiling(level::numeric / permit) from weir_bucket where k = " + bytea_of(name));
    }
    void kill_connections() { end_connections(session, "app"); }
    [[nodiscard]] seats_record look(std::string const& name) {
        auto const rows = session.query(
            "select (extract(epoch from clock_timestamp()) * 1000000)::bigint, state from "
            "weir_seats where k = " +
            bytea_of(name));
        if (rows.empty())
            return {};
        auto const ledger = weir::detail::seat_ledger::parse(rows[0][1]);
        BOOST_TEST_REQUIRE(ledger.has_value());
        return {std::stoll(rows[0][0]), *ledger};
    }
};

}  // namespace support
