#include "world.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using support::limit_of;
using support::test_gate;
using support::test_limit;
using support::visit;

namespace {

// The time by which a timeout may be late.
constexpr auto late = weir::queue_options().tolerance;

struct limits {
    test_limit& add(config::limit const& c) {
        all.push_back(std::make_shared<test_limit>(
            context.get_executor(), c, support::test_world::place{c.queue.order}));
        return static_cast<test_limit&>(*all.back());
    }
    test_limit& add(std::string const& name, std::string const& rule,
                    std::string const& queue = "") {
        return add(limit_of(name, rule, queue));
    }
    test_limit& add_dry_run(std::string const& name, std::string const& rule,
                            std::string const& queue = "") {
        auto c = limit_of(name, rule, queue);
        c.dry_run = true;
        return add(c);
    }
    test_limit& add_at_store(std::string const& name, std::string const& rule) {
        auto c = limit_of(name, rule);
        c.store = "store";
        return add(c);
    }
    test_limit& add_unlimited(std::string const& name, std::string const& queue = "") {
        auto c = limit_of(name, "1/1h", queue);
        c.is_unlimited = true;
        return add(c);
    }
    [[nodiscard]] std::string order() const {
        std::string names;
        test_gate const gate(all);
        for (auto const& l : gate.all())
            names += l->configuration().name + ' ';
        return names;
    }
    void pass(weir::duration d) { weir::testing::run_for(context, d); }
    // Checks that a second request waits for exactly `patience`; returns the limit that rejects it.
    [[nodiscard]] std::string rejects_after(weir::duration patience) {
        test_gate const gate(all);
        visit holder(gate);
        visit waiter(gate);
        pass(patience - 1ms);
        BOOST_TEST(waiter.waits());
        pass(1ms + late);
        return waiter.rejected_by();
    }

    boost::asio::io_context context;
    std::vector<std::shared_ptr<support::test_world::limit>> all;
};

weir::amount in_use(test_limit const& l) {
    return l.stats().in_use;
}
std::uint64_t rejected_by(test_limit const& l) {
    auto const s = l.stats();
    return s.no_permit + s.timed_out + s.deadline_unreachable;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_gate)

// A limit without a rule changes nothing: the limits around it decide and wait as without it, wherever it is.
BOOST_AUTO_TEST_CASE(passes_unlimited_limits) {
    for (unsigned without = 0; without != 1U << 6; ++without) {
        BOOST_TEST_INFO_SCOPE("unlimited: " << without);
        limits l;
        std::vector<std::string> limited;
        auto const add = [&](unsigned number, std::string const& rule, std::string const& queue) {
            auto const name = std::to_string(number);
            if (without >> number & 1) {
                l.add_unlimited(name, queue);
            } else {
                l.add(name, rule, queue);
                limited.push_back(name);
            }
        };
        add(0, "5 seats", "");
        add(1, "3 seats", "");
        add(2, "4 seats", "");
        add(3, "2 seats", "order lifo");
        add(4, "1 seats", "order lifo");
        auto& dry = without >> 5 & 1 ? l.add_unlimited("5") : l.add_dry_run("5", "1 seats");
        test_gate const gate(l.all);
        // The number of the limit with the fewest seats, and the number of its seats.
        constexpr int seats[] = {5, 3, 4, 2, 1};
        int least = -1;
        for (auto const& name : limited)
            if (least < 0 || seats[std::stoi(name)] < seats[least])
                least = std::stoi(name);
        int const places = least < 0 ? 10 : seats[least];
        std::vector<std::unique_ptr<visit>> in;
        for (int i = 0; i != places; ++i) {
            in.push_back(std::make_unique<visit>(gate));
            BOOST_TEST(in.back()->is_in());
            BOOST_TEST(in.back()->entry.permits.size() == 6u);
            for (std::size_t n = 0; n != 5; ++n) {
                auto const number =
                    static_cast<unsigned>(std::stoi(gate.all()[n]->configuration().name));
                BOOST_TEST(bool(in.back()->entry.permits[n]) == !(without >> number & 1));
            }
        }
        for (auto const& one : l.all)
            if (auto const& c = one->configuration(); !c.dry_run)
                BOOST_TEST(one->stats().in_use == (c.is_unlimited ? 0 : places));
        BOOST_TEST(dry.stats().granted == (without >> 5 & 1 ? 0u : 1u));
        if (least < 0)
            continue;
        visit next(gate);
        BOOST_TEST(next.waits());
        visit other(gate);
        in.pop_back();
        l.pass(1ms);
        BOOST_TEST((next.is_in() || other.is_in()));  // the last one, in the order `lifo`
        l.pass(1s + late);
        auto const& rejected = next.is_in() ? other : next;
        BOOST_TEST(rejected.rejected_by() == std::to_string(least));
        // A second attempt, as after a server without a free seat.
        auto& again = next.is_in() ? next : other;
        again.entry.start_again();
        gate.pass_unlimited(again.entry);
        BOOST_TEST(!gate.is_in(again.entry));
    }
}

BOOST_FIXTURE_TEST_CASE(orders_its_limits_by_kind, limits) {
    add_dry_run("dry_run", "1 seats");
    add_at_store("store", "1/1s");
    add("lifo", "1 seats", "order lifo");
    add("first", "1/1s");
    add_dry_run("second_dry_run", "1/1s");
    add("codel", "1/1s", "order codel");
    add("second", "1 seats");
    BOOST_TEST(order() == "first second lifo codel store dry_run second_dry_run ");
    BOOST_TEST(test_gate(all).strict() == 5u);
}

BOOST_FIXTURE_TEST_CASE(grants_immediately_if_all_limits_have_free_permits, limits) {
    auto& seats = add("seats", "1 seats");
    auto& rate = add("rate", "2/60s");
    test_gate const gate(all);
    visit one(gate);
    BOOST_TEST(one.is_in());
    BOOST_TEST(one.entry.permits.size() == 2u);
    BOOST_TEST(one.entry.passed == 2u);
    BOOST_TEST(in_use(seats) == 1);
    BOOST_TEST(in_use(rate) == 1);
}

BOOST_FIXTURE_TEST_CASE(without_limits_grants_all_requests, limits) {
    test_gate const gate(all);
    BOOST_TEST(visit(gate).is_in());
}

// Combines limits with free permits and a full one, chained or not, with and without patience.
BOOST_AUTO_TEST_CASE(keeps_no_permits_of_a_rejected_request) {
    for (std::string const patience : {"patience 0s", "patience 100ms"})
        for (std::string const order : {"", " order lifo"}) {
            BOOST_TEST_CONTEXT(patience << order) {
                limits here;
                auto& rate = here.add("rate", "5/60s", patience);
                auto& lifo = here.add("lifo", "5/60s", patience + " order lifo");
                auto& full = here.add("full", "1 seats", patience + order);
                test_gate const gate(here.all);
                visit holder(gate);
                BOOST_REQUIRE(holder.is_in());
                for (int i = 0; i != 9; ++i) {
                    visit rejected(gate);
                    BOOST_TEST(rejected.waits() == (patience != "patience 0s"));
                    here.pass(100ms + late);
                    BOOST_TEST(rejected.rejected_by() == "full");
                    BOOST_TEST(rejected.entry.rejected.number == (order.empty() ? 1u : 2u));
                }
                BOOST_TEST(in_use(rate) == 1);
                BOOST_TEST(in_use(lifo) == 1);
                BOOST_TEST(in_use(full) == 1);
                // Each limit counts its own decision, and all limits of a chain have one.
                bool const is_chained = order.empty();
                BOOST_TEST(rate.stats().granted == (is_chained ? 1u : 10u));
                BOOST_TEST(lifo.stats().granted == (is_chained ? 1u : 10u));
                BOOST_TEST(full.stats().granted == 1u);
            }
        }
}

BOOST_FIXTURE_TEST_CASE(holds_no_permits_while_a_chain_waits, limits) {
    auto& rate = add("rate", "5/60s");
    add("seats", "1 seats");
    test_gate const gate(all);
    visit holder(gate);
    visit waiter(gate);
    BOOST_TEST(waiter.waits());
    BOOST_TEST(in_use(rate) == 1);
    holder.leave();
    pass(0s);
    BOOST_TEST(waiter.is_in());
    BOOST_TEST(in_use(rate) == 1);
    BOOST_TEST(rate.stats().granted == 2u);
}

// A request waits for a limit outside the chain after the chain, and holds the chain's permits.
BOOST_FIXTURE_TEST_CASE(waits_for_one_limit_after_the_other, limits) {
    auto& chained = add("chained", "1 seats");
    add("rate", "9/60s");
    add("lifo", "1 seats", "order lifo");
    test_gate const gate(all);
    visit holder(gate);
    visit waiter(gate);
    holder.entry.permits[0].leave();
    pass(300ms);
    BOOST_TEST(waiter.waits());
    BOOST_TEST(waiter.entry.passed == 2u);
    BOOST_TEST(in_use(chained) == 1);
    holder.leave();
    pass(0s);
    BOOST_TEST(waiter.is_in());
    BOOST_TEST((waiter.entry.waited == 300ms));
}

BOOST_FIXTURE_TEST_CASE(adds_up_waits_one_after_the_other, limits) {
    add("chained", "1 seats");
    add("rate", "9/60s");
    add("lifo", "1 seats", "order lifo");
    add_dry_run("dry_run", "9/60s");
    test_gate const gate(all);
    visit holder(gate);
    visit waiter(gate);
    pass(200ms);
    holder.entry.permits[0].leave();
    pass(300ms);
    BOOST_TEST(waiter.waits());
    holder.leave();
    pass(0s);
    BOOST_TEST(waiter.is_in());
    BOOST_TEST((waiter.entry.waited == 500ms));
    BOOST_TEST((waiter.entry.patience == 500ms));
    BOOST_TEST(waiter.entry.permits.size() == 4u);
}

// Both waits together have one patience.
BOOST_FIXTURE_TEST_CASE(limits_the_sum_of_all_waits_to_the_patience, limits) {
    add("chained", "1 seats", "patience 1s");
    auto& rate = add("rate", "9/60s", "patience 1s");
    add("lifo", "1 seats", "patience 1s order lifo");
    test_gate const gate(all);
    visit holder(gate);
    visit waiter(gate);
    pass(600ms);
    holder.entry.permits[0].leave();
    pass(399ms);
    BOOST_TEST(waiter.waits());
    BOOST_TEST((waiter.entry.patience == 400ms));
    pass(1ms + late);
    BOOST_TEST(waiter.rejected_by() == "lifo");
    BOOST_TEST((waiter.entry.rejected.ec == weir::errc::timed_out));
    BOOST_TEST(in_use(rate) == 1);
}

BOOST_FIXTURE_TEST_CASE(has_the_shortest_patience_of_its_limits, limits) {
    add("seats", "1 seats", "patience 3s");
    add("lifo", "9 seats", "patience 2s order lifo");
    add_dry_run("dry_run", "9 seats", "patience 1s");
    BOOST_TEST(rejects_after(2s) == "seats");
}

BOOST_FIXTURE_TEST_CASE(has_the_shortest_patience_in_any_order_of_the_limits, limits) {
    add("seats", "1 seats", "patience 2s");
    add("rate", "9/60s", "patience 3s");
    add("lifo", "9 seats", "patience 4s order lifo");
    BOOST_TEST(rejects_after(2s) == "seats");
}

// The seats of an upstream have no patience option.
BOOST_FIXTURE_TEST_CASE(has_the_default_patience_if_no_limit_has_one, limits) {
    auto of_upstream = limit_of("upstream", "1 seats");
    of_upstream.queue.patience = {};
    add(of_upstream);
    BOOST_TEST(rejects_after(1s) == "upstream");
}

BOOST_FIXTURE_TEST_CASE(has_the_patience_of_the_limits_that_have_one, limits) {
    auto of_upstream = limit_of("upstream", "1 seats");
    of_upstream.queue.patience = {};
    add(of_upstream);
    add("rate", "9/60s", "patience 5s");
    BOOST_TEST(rejects_after(5s) == "upstream");
}

BOOST_FIXTURE_TEST_CASE(with_only_dry_runs_never_rejects, limits) {
    auto& dry_run = add_dry_run("dry_run", "1/60s");
    test_gate const gate(all);
    for (int i = 0; i != 3; ++i)
        BOOST_TEST(visit(gate).is_in());
    BOOST_TEST(dry_run.stats().granted == 1u);
}

// A dry run only counts.
BOOST_FIXTURE_TEST_CASE(enters_dry_runs_last, limits) {
    auto& dry_run = add_dry_run("dry_run", "1/60s");
    add("seats", "2 seats", "patience 100ms");
    add("lifo", "2 seats", "patience 100ms order lifo");
    test_gate const gate(all);
    visit first(gate);
    visit second(gate);
    visit rejected(gate);
    pass(100ms + late);
    BOOST_TEST(second.is_in());
    BOOST_TEST(second.entry.permits.size() == 3u);
    BOOST_TEST(!second.entry.permits[2]);
    BOOST_TEST(rejected.rejected_by() == "seats");
    BOOST_TEST(dry_run.stats().granted == 1u);
    BOOST_TEST(rejected_by(dry_run) == 1u);

    visit waits(gate);
    first.leave();
    pass(0s);
    BOOST_TEST(waits.is_in());
    BOOST_TEST(waits.entry.permits.size() == 3u);
    BOOST_TEST(rejected_by(dry_run) == 2u);
}

BOOST_FIXTURE_TEST_CASE(enters_dry_runs_after_the_wait_for_a_chain, limits) {
    auto& dry_run = add_dry_run("dry_run", "1/60s");
    add("seats", "1 seats");
    add("rate", "9/60s");
    test_gate const gate(all);
    visit holder(gate);
    visit waiter(gate);
    BOOST_TEST(gate.waits_for_chain(waiter.entry));
    BOOST_TEST(rejected_by(dry_run) == 0u);
    holder.leave();
    pass(0s);
    BOOST_TEST(waiter.is_in());
    BOOST_TEST(waiter.entry.permits.size() == 3u);
    BOOST_TEST(rejected_by(dry_run) == 1u);
}

BOOST_FIXTURE_TEST_CASE(does_not_chain_a_single_limit, limits) {
    add("seats", "1 seats");
    test_gate const gate(all);
    visit holder(gate);
    visit waiter(gate);
    BOOST_TEST(!gate.waits_for_chain(waiter.entry));
    holder.leave();
    pass(0s);
    BOOST_TEST(waiter.is_in());
}

BOOST_FIXTURE_TEST_CASE(reports_the_rejecting_limit_and_retry_after, limits) {
    add("often", "9/60s", "patience 0s");
    add("seldom", "1/60s", "patience 0s");
    test_gate const gate(all);
    visit const first(gate);
    pass(20s);
    visit const second(gate);
    BOOST_TEST(second.rejected_by() == "seldom");
    BOOST_TEST(second.entry.rejected.number == 1u);
    BOOST_TEST((second.entry.rejected.retry_after == 40s));
}

BOOST_FIXTURE_TEST_CASE(refunds_a_request_that_was_not_forwarded, limits) {
    auto& rate = add("rate", "1/60s", "patience 0s");
    add("lifo", "1/60s", "patience 0s order lifo");
    test_gate const gate(all);
    visit one(gate);
    BOOST_TEST(visit(gate).rejected_by() == "rate");
    one.entry.give_back();
    BOOST_TEST(in_use(rate) == 0);
    BOOST_TEST(visit(gate).is_in());
}

// A report releases only the adaptive seats.
// A limit with classes orders the chains of its requests. They hold no permit of another limit while they wait.
BOOST_FIXTURE_TEST_CASE(keeps_the_order_of_a_limit_beside_others, limits) {
    auto& rate = add("rate", "5/60s");
    add("classes", "1 seats", "order priority");
    add("seats", "4 seats");
    test_gate const gate(all);
    visit holder(gate);
    visit last(gate, {.priority = 6});
    visit middle(gate, {.priority = 3});
    visit first(gate, {.priority = 0});
    pass(10ms);
    BOOST_TEST(in_use(rate) == 1);
    holder.leave();
    pass(10ms);
    BOOST_TEST(first.is_in());
    first.leave();
    pass(10ms);
    BOOST_TEST(middle.is_in());
    BOOST_TEST(last.waits());
    BOOST_TEST(in_use(rate) == 1);
    pass(2s);
    BOOST_TEST(last.rejected_by() == "classes");
}

BOOST_FIXTURE_TEST_CASE(lets_clients_take_turns_at_a_limit_beside_others, limits) {
    auto& rate = add("rate", "9/60s");
    add("fair", "1 seats", "order fair patience 1min");
    test_gate const gate(all);
    visit holder(gate, 1);
    visit busy(gate, 1);
    visit busier(gate, 1);
    visit other(gate, 2);
    pass(10ms);
    BOOST_TEST(in_use(rate) == 1);
    holder.leave();
    pass(10ms);
    if (!other.is_in()) {
        BOOST_TEST_REQUIRE(busy.is_in());
        busy.leave();
        pass(10ms);
    }
    BOOST_TEST(other.is_in());
    BOOST_TEST(busier.waits());
}

// The permits of the other limits come back with the amounts that were taken, wherever the request waited before.
BOOST_AUTO_TEST_CASE(gives_back_exactly_what_it_held_if_the_last_limit_rejects) {
    for (std::string const rule : {"10/60s", "10/60s sliding", "10/60s fixed", "10/60s bucket"})
        for (bool const waits : {false, true}) {
            BOOST_TEST_CONTEXT(rule << (waits ? ", after a wait" : "")) {
                limits here;
                auto& rate = here.add("rate", rule, "patience 5s");
                auto& seats = here.add("seats", "7 seats", "patience 5s");
                auto& lifo = here.add("lifo", "9 seats", "patience 5s order lifo");
                auto& store = here.add_at_store("store", "1/1h");
                test_gate const gate(here.all,
                                     {{"rate", 4}, {"seats", 3}, {"lifo", 5}, {"store", 1}});
                auto const free = [](test_limit& l) {
                    weir::error_code ec;
                    auto const none = l.try_enter({}, {.cost = 0}, ec);
                    return none.remaining();
                };
                visit holder(gate);
                BOOST_TEST(holder.is_in());
                BOOST_TEST(free(store) == 0);
                visit next(gate);
                BOOST_TEST(next.waits());
                BOOST_TEST(free(seats) == 1);
                here.pass(waits ? 1s : 0s);
                if (waits)
                    holder.leave();
                here.pass(6s);
                BOOST_TEST(next.rejected_by() == (waits ? "store" : "lifo"));
                BOOST_TEST(free(rate) == (rule == "10/60s bucket" ? 7 : 6));
                BOOST_TEST(free(seats) == (waits ? 7 : 4));
                BOOST_TEST(free(lifo) == (waits ? 9 : 4));
            }
        }
}

BOOST_AUTO_TEST_CASE(takes_the_cost_of_a_request_from_each_limit) {
    for (bool const chained : {true, false}) {
        limits here;
        auto c = limit_of("rate", "10/60s", "patience 0s");
        c.cost = {.what = config::cost::kind::header, .name = "X", .estimate = 4};
        auto& rate = here.add(c);
        if (chained)
            here.add("seats", "9 seats", "patience 0s");
        test_gate const gate(here.all, {{"seats", 2}});
        visit const one(gate);
        BOOST_TEST(in_use(rate) == 4);
        visit const two(gate, {.cost = 6});
        BOOST_TEST(in_use(rate) == 10);
        visit const nothing(gate, {.cost = 0});
        BOOST_TEST(nothing.is_in());
        visit const three(gate, {.cost = 1});
        BOOST_TEST(three.rejected_by() == "rate");
        visit const four(gate, {.cost = 11});
        BOOST_TEST((four.entry.rejected.ec == weir::errc::exceeds_capacity));
        if (chained)
            BOOST_TEST(in_use(static_cast<test_limit&>(*here.all[1])) == 6);
    }
}

// Two limits count the same requests: one by their status, and one by their cost.
BOOST_AUTO_TEST_CASE(corrects_its_permits_by_the_response) {
    struct row {
        unsigned status;
        std::optional<weir::amount> known;
        weir::amount failures, tokens;  // in use afterwards
    };
    for (auto const& [status, known, failures, tokens] : {
             row{401, 7, 1, 7},
             row{403, 0, 1, 0},
             row{400, 7, 0, 7},
             row{404, {}, 0, 4},
             row{500, 12, 1, 12},
             row{599, {}, 1, 4},
             row{0, {}, 0, 4},
         }) {
        BOOST_TEST_CONTEXT(status) {
            limits here;
            auto by_status = limit_of("failures", "2/60s", "patience 0s");
            by_status.count = {{401, 403}, {500, 599}};
            auto by_cost = limit_of("tokens", "10/60s", "patience 0s");
            by_cost.cost = {.what = config::cost::kind::response_header, .estimate = 4};
            auto& first = here.add(by_status);
            auto& second = here.add(by_cost);
            test_gate const gate(here.all);
            visit one(gate);
            BOOST_TEST(in_use(first) == 1);
            BOOST_TEST(in_use(second) == 4);
            gate.settle(one.entry, status, [&](config::cost const& c) {
                return config::is_of_response(c) ? known : std::nullopt;
            });
            BOOST_TEST(in_use(first) == failures);
            BOOST_TEST(in_use(second) == tokens);
        }
    }
}

BOOST_FIXTURE_TEST_CASE(reports_to_adaptive_seats, limits) {
    auto& seats = add("seats", "1 seats");
    auto& adaptive = add("adaptive", "10 aimd min 1");
    test_gate const gate(all);
    visit one(gate);
    gate.report(one.entry, weir::outcome::dropped);
    BOOST_TEST(in_use(seats) == 1);
    BOOST_TEST(in_use(adaptive) == 0);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_CASE(retry_after_is_rounded_up_to_whole_seconds) {
    using limiting::come_back_after;
    BOOST_TEST((come_back_after(std::nullopt) == 1s));
    BOOST_TEST((come_back_after(0s) == 1s));
    BOOST_TEST((come_back_after(1ms) == 1s));
    BOOST_TEST((come_back_after(1s) == 1s));
    BOOST_TEST((come_back_after(1001ms) == 2s));
    BOOST_TEST((come_back_after(59s + 1ns) == 60s));
}

BOOST_AUTO_TEST_SUITE(a_limit_in_use)

BOOST_FIXTURE_TEST_CASE(changes_its_rule_and_its_queue_in_place, limits) {
    auto& seats = add("seats", "2 seats", "patience 1s max_waiting 1");
    test_gate const gate(all);
    visit const one(gate);
    visit const two(gate);
    visit const three(gate);
    visit const four(gate);
    BOOST_TEST(three.waits());
    pass(0s);
    BOOST_TEST(four.rejected_by() == "seats");
    seats.configure(limit_of("seats", "3 seats", "patience 1s max_waiting 2"));
    pass(0s);
    BOOST_TEST(three.is_in());
    visit const five(gate);
    visit const six(gate);
    visit const seven(gate);
    pass(0s);
    BOOST_TEST(five.waits());
    BOOST_TEST(six.waits());
    BOOST_TEST(seven.rejected_by() == "seats");
    BOOST_TEST((seats.configuration().queue.max_waiting == 2));
    pass(2s);
}

BOOST_FIXTURE_TEST_CASE(takes_another_rule_without_a_change_of_its_configuration, limits) {
    auto& seats = add("seats", "1 seats", "patience 0s");
    seats.change_rule(config::rule_of("2 seats"));
    test_gate const gate(all);
    visit const one(gate);
    visit const two(gate);
    BOOST_TEST(two.is_in());
    BOOST_TEST(weir::to_string(seats.configuration().rule) == "1 seats");
}

BOOST_FIXTURE_TEST_CASE(rejects_all_requests_after_close, limits) {
    auto& seats = add("seats", "1 seats");
    test_gate const gate(all);
    visit const holder(gate);
    visit const waiter(gate);
    seats.close();
    pass(0s);
    BOOST_TEST(waiter.rejected_by() == "seats");
    BOOST_TEST((visit(gate).entry.rejected.ec == weir::errc::closed || visit(gate).waits()));
}

BOOST_FIXTURE_TEST_CASE(reports_its_kind, limits) {
    BOOST_TEST(add("a", "1 seats").has_seats());
    BOOST_TEST(add("r", "1 seats rest 2s").has_seats());
    BOOST_TEST(add("b", "1/1s & 3 seats").has_seats());
    BOOST_TEST(!add("c", "1/1s").has_seats());
    auto& adaptive = add("d", "adaptive 2..20");
    BOOST_TEST(adaptive.is_adaptive());
    BOOST_TEST((adaptive.seats_now({}) == adaptive.stats().capacity));
    BOOST_TEST(!add("e", "1 seats").seats_now({}).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
