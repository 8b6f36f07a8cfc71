#pragma once

#include <weir/policy/fed.hpp>

#include "support/visit.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>

// The tests of stores are the same for all of them: `store_tests.hpp`, `process_tests.hpp` and `seats/tests.hpp`. A
// file that includes one of them says before in which `place`: where the store is, in its own words.
//
// | of a place              | what it is                                                                    |
// |-------------------------|-------------------------------------------------------------------------------|
// | `place()`               | at a server that all tests of a program share: they use names of their own    |
// | `ctx`, `store`         | a store, and where it runs                                                  |
// | `connect(ctx)`          | another one at the same server                                                |
// | `has(name)`             | whether the server has a bucket of that name                                  |
//
// And for processes and faults:
//
// | `place(server)`         | at a `server_type` of its own                                                 |
// | `address()`, `at(c, a)` | how to find it, and a store of a process that has been told so              |
// | `address_of(socket)`    | the same of a local socket                                                    |
// | `saves()`               | with which options the server loses nothing when it is killed                 |
// | `used(name)`            | how many permits of a bucket are in use, rounded up                           |
// | `kill_connections(stop)`| ends those of stores again and again, on a thread of its own                 |
// | `look(name)`            | what the server has noted of seats                                            |

namespace support {

/// What all places have.
struct any_place {
    boost::asio::io_context ctx;
    /// So much that a loaded machine is not taken for a server that does not answer.
    weir::shared_options patient{
        .rate = {10, std::chrono::seconds(1)}, .burst = 5, .timeout = std::chrono::seconds(10)};

    void run() {
        ctx.restart();
        ctx.run();
    }
    /// Until it is over.
    void run(visit const& v) {
        ctx.restart();
        while (v.waiting() && ctx.run_one() != 0) {}
        BOOST_TEST_REQUIRE(v.over());
    }
};

}  // namespace support
