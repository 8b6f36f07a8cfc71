#include <weir/detail/any_queue.hpp>
#include <weir/detail/keyed/rooms.hpp>
#include <weir/policy/rule.hpp>
#include <weir/policy/seats.hpp>
#include <weir/queue_options.hpp>

#include "support/idle_issuer.hpp"

#include <boost/test/unit_test.hpp>

// Changes of the options of all queues may reach a shard in another order than they were made.

using rooms = weir::detail::keyed_rooms<int, weir::policy::rule_of_t<weir::policy::seats>,
                                        weir::detail::any_queue>;

BOOST_AUTO_TEST_CASE(keeps_the_newest_options_of_the_queues) {
    support::idle_issuer issuer;
    weir::detail::gate_parts of_gates{issuer};
    rooms all(of_gates, weir::queue_options{.max_waiting = 1});
    all.set_queueing({{.max_waiting = 3}, 2});
    BOOST_TEST(all.parts().queueing.max_waiting == 3);
    all.set_queueing({{.max_waiting = 2}, 1});
    BOOST_TEST(all.parts().queueing.max_waiting == 3);
    all.set_queueing({{.max_waiting = 4}, 3});
    BOOST_TEST(all.parts().queueing.max_waiting == 4);
}
