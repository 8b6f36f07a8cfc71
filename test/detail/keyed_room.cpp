#include <weir/detail/keyed/room.hpp>
#include <weir/key_hash.hpp>
#include <weir/policy/rule.hpp>
#include <weir/policy/seats.hpp>
#include <weir/queue_options.hpp>

#include "support/idle_issuer.hpp"

#include <boost/test/unit_test.hpp>

#include <memory>

// Changes of the options of all queues may reach a shard in another order than they were made.

BOOST_AUTO_TEST_SUITE(detail_keyed_room)

namespace {

using seats_rule = weir::policy::rule_of_t<weir::policy::seats>;
using room = weir::detail::keyed_room<int, weir::key_hash, seats_rule>;

}  // namespace

BOOST_AUTO_TEST_CASE(keeps_the_newest_options_of_the_queues) {
    support::idle_issuer issuer;
    room all(issuer,
             room::options_type{
                 .rule = std::make_shared<seats_rule>(weir::policy::seats::options_type()),
                 .bounds = std::make_shared<weir::detail::keyed_bounds<weir::key_hash>>(
                     weir::key_hash(), weir::hash_seed(), 10U)},
             weir::queue_options{.max_waiting = 1});
    all.set_queueing({{.max_waiting = 3}, 2});
    BOOST_TEST(all.queueing().max_waiting == 3);
    all.set_queueing({{.max_waiting = 2}, 1});
    BOOST_TEST(all.queueing().max_waiting == 3);
    all.set_queueing({{.max_waiting = 4}, 3});
    BOOST_TEST(all.queueing().max_waiting == 4);
}

BOOST_AUTO_TEST_SUITE_END()
