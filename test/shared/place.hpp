#pragma once

#include <weir/policy/fed.hpp>

#include "support/visit.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>

// The tests of stores are the same for all of them: `store_tests.hpp`, `process_tests.hpp` and `seats/tests.hpp`. A
// file that includes one of them first defines its `place`, which describes the store:
//
// - `place()`: at a server that all tests of a program share; each test uses its own names.
// - `ctx`, `store`: a store, and its context.
// - `connect(ctx)`: another store at the same server.
// - `has(name)`: whether the server has a bucket of that name.
//
// And for processes and faults:
//
// - `place(server)`: at a separate `server_type`.
// - `address()`, `at(c, a)`: the address, and a store for a process that got this address.
// - `address_of(socket)`: the address of a local socket.
// - `saves()`: the options with which the server loses nothing when it is killed.
// - `used(name)`: how many permits of a bucket are in use, rounded up.
// - `kill_connections()`: kills all connections of stores, on any thread.
// - `look(name)`: the server's record of seats.

namespace support {

/// The common part of all places.
struct any_place {
    boost::asio::io_context ctx;
    /// So long that a loaded machine does not look like a server that does not reply.
    weir::shared_options patient{
        .rate = {10, std::chrono::seconds(1)}, .burst = 5, .timeout = std::chrono::seconds(10)};

    void run() {
        ctx.restart();
        ctx.run();
    }
    /// Runs until everything has ended.
    void run(visit const& v) {
        ctx.restart();
        while (v.waiting() && ctx.run_one() != 0) {}
        BOOST_TEST_REQUIRE(v.over());
    }
};

}  // namespace support
