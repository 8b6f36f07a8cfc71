#include <weir/detail/line.hpp>

#include "support/printing.hpp"
#include "support/stand_in.hpp"

#include <boost/test/unit_test.hpp>

using weir::amount;
using weir::time_point;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(detail_line)

using weir::detail::fifo;
using weir::detail::line;

namespace {

class waiter final : public support::stand_in {
public:
    explicit waiter(amount n) { count = n; }
};

constexpr time_point start{1h};

}  // namespace

BOOST_AUTO_TEST_CASE(counts_operations_and_their_permits) {
    line<fifo> line;
    BOOST_TEST(line.empty());
    BOOST_TEST(!line.bars(1, {}));
    waiter first(2);
    waiter second(3);
    line.push(first);
    line.push(second);
    BOOST_TEST(line.size() == 2U);
    BOOST_TEST(line.asked() == 5);
    BOOST_TEST(line.bars(1, {}));
    BOOST_TEST(line.next(start) == &first);
    line.erase(first);
    BOOST_TEST(line.next(start) == &second);
    BOOST_TEST(line.oldest() == &second);
    line.erase(second);
    BOOST_TEST(line.empty());
    BOOST_TEST(line.asked() == 0);
    BOOST_TEST(!line.next(start));
}

BOOST_AUTO_TEST_CASE(is_swept_in_order_of_service_despite_arrivals_and_departures) {
    line<fifo> line;
    BOOST_TEST(!line.step_sweep());
    line.begin_sweep();
    BOOST_TEST(!line.step_sweep());

    waiter one(1), two(1), three(1), four(1), five(1), six(1);
    for (auto* const w : {&one, &two, &three, &four, &five})
        line.push(*w);
    line.begin_sweep();
    BOOST_TEST(line.step_sweep() == &one);
    line.erase(one);  // the next one of the sweep
    BOOST_TEST(line.step_sweep() == &two);
    line.erase(three);  // the one after it
    line.erase(two);    // one that the sweep has passed
    BOOST_TEST(line.step_sweep() == &four);
    line.push(six);
    line.erase(five);
    BOOST_TEST(line.step_sweep() == &six);
    BOOST_TEST(!line.step_sweep());
    BOOST_TEST(!line.step_sweep());

    line.begin_sweep();
    line.begin_sweep();
    BOOST_TEST(line.step_sweep() == &four);
    line.begin_sweep();
    line.erase(four);
    BOOST_TEST(line.step_sweep() == &six);
    line.erase(six);
    BOOST_TEST(!line.step_sweep());
}

BOOST_AUTO_TEST_CASE(bars_newcomers_only_while_an_operation_waits) {
    line<fifo> line;
    waiter first(3);
    BOOST_TEST(!line.bars(1, {}));
    line.push(first);
    BOOST_TEST(line.bars(1, {}));
    BOOST_TEST(line.ahead_of_new(1, {}) == 3);
    line.erase(first);
    BOOST_TEST(!line.bars(1, {}));
    BOOST_TEST(line.ahead_of_new(1, {}) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
