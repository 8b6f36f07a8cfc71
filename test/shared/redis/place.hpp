#pragma once

#include <weir/redis/store.hpp>
#include <weir/shared/seat_ledger.hpp>

#include "shared/place.hpp"
#include "shared/redis/server.hpp"
#include "shared/seats/record.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace support {

/// One server for all tests of a program.
inline redis_server& server() {
    static redis_server one;
    return one;
}

/// A store at a server.
struct redis_place : any_place {
    using server_type = redis_server;
    static constexpr auto& if_here = if_redis_is_here;

    server_type& home;
    std::shared_ptr<weir::redis::store> store = at(ctx, address());

    explicit redis_place(server_type& s = server()) : home(s) {}

    static std::string address_of(std::string const& socket) { return "unix:" + socket; }
    [[nodiscard]] std::string address() const { return address_of(home.socket()); }
    static std::shared_ptr<weir::redis::store> at(boost::asio::io_context& where,
                                                  std::string address) {
        using namespace std::chrono_literals;
        weir::redis::options const options{
            .url = std::move(address), .connect_timeout = 10s, .silent_for = 10s};
        return std::make_shared<weir::redis::store>(where, options);
    }
    [[nodiscard]] std::shared_ptr<weir::store> connect(boost::asio::io_context& where) const {
        return at(where, address());
    }
    static std::vector<std::string> saves() {
        return {"--appendonly", "yes", "--appendfsync", "always"};
    }

    [[nodiscard]] bool has(std::string const& name) const {
        return redis_session(home).say({"EXISTS", "{weir:" + name + "}"}) == "1";
    }
    [[nodiscard]] weir::amount used(std::string const& name) const {
        auto const stored = redis_session(home).numbers({"GET", "{weir:" + name + "}"});
        return (stored.at(1) + stored.at(2) - 1) / stored.at(2);
    }
    void kill_connections() const {
        redis_session(home).say({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    }
    [[nodiscard]] seats_record look(std::string const& name) const {
        redis_session own(home);
        auto const clock = own.numbers({"TIME"});
        auto const text = own.say({"GET", "{weir:" + name + "}:seats"});
        seats_record found{.now = clock[0] * 1'000'000 + clock[1], .ledger = {}};
        if (text == "(nil)")
            return found;
        auto const ledger = weir::detail::seat_ledger::parse(text);
        BOOST_TEST_REQUIRE(ledger.has_value());
        found.ledger = *ledger;
        return found;
    }
};

}  // namespace support
