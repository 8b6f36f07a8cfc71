#include <weir/detail/any_queue.hpp>
#include <weir/detail/keyed/rooms.hpp>
#include <weir/permit.hpp>
#include <weir/policy/rule.hpp>
#include <weir/policy/seats.hpp>
#include <weir/queue_options.hpp>
#include <weir/time.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdint>

// Changes of the options of all queues may reach a shard in another order than they were made.

using rooms = weir::detail::keyed_rooms<int, weir::policy::rule_of_t<weir::policy::seats>,
                                        weir::detail::any_queue>;

namespace {

using weir::amount;
using weir::detail::permit_origin;

// The issuer of no permits.
class nobody final : public weir::detail::permit_issuer {
    void leave(amount, permit_origin) noexcept override {}
    void leave_unused(amount, permit_origin) noexcept override {}
    void refund(amount, permit_origin) noexcept override {}
    std::uint64_t overdraw(amount, amount, permit_origin from) override { return from.ticket; }
    void split(permit_origin) noexcept override {}
    std::uint64_t merge(permit_origin into, permit_origin, amount) noexcept override {
        return into.ticket;
    }
    [[nodiscard]] amount remaining(permit_origin) const noexcept override { return 0; }
    [[nodiscard]] weir::duration reset_after(permit_origin) const noexcept override {
        return weir::forever;
    }
};

}  // namespace

BOOST_AUTO_TEST_CASE(keeps_the_newest_options_of_the_queues) {
    nobody issuer;
    weir::detail::gate_parts of_gates{issuer};
    rooms all(of_gates, weir::queue_options{.max_waiting = 1});
    all.set_queueing({{.max_waiting = 3}, 2});
    BOOST_TEST(all.parts().queueing.max_waiting == 3);
    all.set_queueing({{.max_waiting = 2}, 1});
    BOOST_TEST(all.parts().queueing.max_waiting == 3);
    all.set_queueing({{.max_waiting = 4}, 3});
    BOOST_TEST(all.parts().queueing.max_waiting == 4);
}
