#include "exhaustive.hpp"

#include "world.hpp"

#include <cstdint>
#include <utility>

namespace explorer {
namespace {

using kind = action::kind;
using script = std::vector<action>;

action just(kind what) {
    action a;
    a.what = what;
    a.cancellable = false;
    return a;
}

action const enter = just(kind::enter);
action const leave = just(kind::leave);
action const try_enter = just(kind::try_enter);
action const close_it = just(kind::close);

action within(int patience) {
    auto a = enter;
    a.time = duration(patience);
    return a;
}

action with_handler_elsewhere() {
    auto a = enter;
    a.lives = action::abode::elsewhere;
    return a;
}

action cancellable() {
    auto a = enter;
    a.cancellable = true;
    return a;
}

action enter_with(amount n) {
    auto a = enter;
    a.n = n;
    return a;
}

action sleep(int length) {
    auto a = just(kind::hold);
    a.time = duration(length);
    return a;
}

action cancel(int whom) {
    auto a = just(kind::cancel);
    a.whom = whom;
    return a;
}

action configure(amount limit) {
    auto a = just(kind::configure);
    a.change = {.limit = limit};
    return a;
}

action as(int priority, std::uint64_t key, int weight = 1) {
    auto a = enter;
    a.how = {.priority = priority, .flow = key, .weight = weight};
    return a;
}

scenario seats(amount limit, std::vector<script> callers, int executors = 1) {
    scenario s;
    s.at_first = {.limit = limit};
    s.queueing.tolerance = duration(0);
    s.executors = executors;
    s.callers = std::move(callers);
    return s;
}

scenario in_order(weir::queue_order order, scenario s) {
    s.queueing.order = order;
    s.queueing.ageing = duration(2);
    return s;
}

scenario sliding_log(rule in_force, std::vector<script> callers) {
    auto s = seats(1, std::move(callers));
    s.which = policy::sliding_log;
    s.at_first = in_force;
    return s;
}

}  // namespace

std::vector<small_scenario> small_scenarios() {
    auto const elsewhere = with_handler_elsewhere();
    script const once{enter, leave};
    script const twice{enter, leave, enter, leave};
    return {
        {"one seat, two callers, each enters and leaves twice", seats(1, {twice, twice})},
        {"one seat, three callers", seats(1, {once, once, once})},
        {"one seat, two threads run the context", seats(1, {once, once}, 2)},
        {"one seat, with handlers in another context",
         seats(1, {once, {elsewhere, leave}, {elsewhere, leave}})},
        {"one seat, a waiting request is cancelled",
         seats(1, {{cancellable(), leave}, {cancellable(), leave}, {cancel(0), cancel(1)}})},
        {"one seat, with patience",
         seats(1, {{enter, sleep(2), leave}, {within(1), leave}, {within(2), leave}})},
        {"one seat, some callers use try_enter",
         seats(1, {{enter, leave, try_enter, leave}, once, {try_enter, leave}})},
        {"one seat, all are cancelled", seats(1, {twice, twice, {just(kind::cancel_all)}})},
        {"one seat, closed", seats(1, {twice, twice, {close_it}})},
        {"two seats, lowered and raised",
         seats(2, {once, {enter_with(2), leave}, {configure(1), configure(2)}})},
        {"one seat, drained and closed", seats(1, {once, once, {just(kind::drain), close_it}})},
        {"one seat, in the order of classes",
         in_order(
             weir::queue_order::priority,
             seats(1,
                   {{as(1, 0), sleep(1), leave}, {as(1, 0), leave}, {sleep(1), as(0, 0), leave}}))},
        {"one seat, in the order fair",
         in_order(
             weir::queue_order::fair,
             seats(1, {{as(3, 1), leave, as(3, 1), leave}, {as(3, 2), leave}, {as(3, 2), leave}}))},
        {"one seat, in the order fair, with weights",
         in_order(weir::queue_order::fair, seats(1, {{as(3, 1), leave, as(3, 1), leave},
                                                     {as(3, 2, 2), leave, as(3, 2, 2), leave}}))},
        {"one seat, in the order fair, with classes",
         in_order(weir::queue_order::fair, seats(1, {{as(4, 1), sleep(1), leave},
                                                     {as(4, 2), leave},
                                                     {sleep(1), as(3, 1), leave}}))},
        {"one seat, the limiter is destroyed", seats(1, {twice, once, {just(kind::abandon)}})},
        {"one seat, the context is destroyed",
         seats(1, {{elsewhere, leave}, {elsewhere, leave}, {just(kind::end_context)}})},
        {"one permit per nanosecond",
         sliding_log({.limit = 1, .time = duration(1)},
                     {{enter, enter, enter, enter},
                      {within(1), within(1), within(1), within(1)},
                      {within(2), within(2), within(2), within(2)}})},
    };
}

void run_all(scenario const& s, report& log) {
    std::vector<std::uint8_t> choices;
    for (;;) {
        chooser told(choices, log.log);
        run(s, told, grain::sections, false);
        ++log.runs;
        auto const& last = log.log;
        auto i = last.size;
        while (i != 0 && last.choice[i - 1] + 1 == last.width[i - 1])
            --i;
        if (i == 0)
            return;
        choices.assign(last.choice, last.choice + i);
        ++choices.back();
    }
}

}  // namespace explorer
