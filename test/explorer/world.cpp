#include "world.hpp"

#include <weir/detail/room.hpp>
#include <weir/policy/policy.hpp>

#include "one_limiter.hpp"
#include "overheard.hpp"
#include "world_of.hpp"

#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace explorer {

scenario for_this_world(scenario s) {
    return with_reports(with_statements(
        with_wall_clock(with_pauses(with_ranges(with_places(with_shares(std::move(s))))))));
}

namespace {

oracle& the_oracle() {
    return simulation::current().judge;
}

template <class Policy>
using overheard_room =
    weir::detail::room<weir::detail::one_slot<overheard<Policy>, overheard_queue<the_oracle>>>;

/// A limiter with one core and no keys.
template <class Policy>
class plain
    : public one_limiter<plain<Policy>, weir::detail::core<overheard_room<Policy>, counting_host>> {
public:
    using room = overheard_room<Policy>;
    using operation_type = weir::detail::overdue_operation;
    using options_type = typename Policy::options_type;
    using core = weir::detail::core<room, counting_host>;

    static_assert(weir::countable_policy<overheard<Policy>> == weir::countable_policy<Policy>,
                  "the explorer must count where the limiter does");

    static constexpr int cores(options_type const&) noexcept { return 1; }
    static constexpr int keys = 1;
    [[nodiscard]] static int core_of(int) noexcept { return 0; }
    [[nodiscard]] static std::tuple<> who(int) noexcept { return {}; }

    // The options select the policy inside an `any`.
    plain(simulation& world, options_type const& options,
          std::vector<std::shared_ptr<core>> const& all)
        : plain::one_limiter(all), world_(world), options_(options) {
        follow(world.what.at_first, options_);
        judge().calls_help(room::help_budget);
    }

    [[nodiscard]] options_type const& options_of_core(int) const noexcept { return options_; }
    static void configure(core& c, action const& a) {
        c.configure([&](auto& options) { follow(a.change, options); });
    }
    static void cancel_key(core& c, int) { c.cancel(); }
    static void state(core& c, statement const& said)
        requires requires(options_type& o) { o.stated = said; }
    {
        c.configure([&](auto& options) { options.stated = said; });
    }
    static void look(core& c) {
        static_cast<void>(c.stats());
        static_cast<void>(c.options());
    }

    [[nodiscard]] oracle& judge_of(request::wish, int) const noexcept { return judge(); }
    void section_begins(call& c, int) { judge().locked(c); }
    void section_ends(call& c, int) { judge().unlocked(c, world_.threads.now()); }
    void section_counts(call& c, int, weir::detail::counting what) {
        auto const now = world_.threads.now();
        if (what == weir::detail::counting::take)
            judge().took(c, 1, 0, now);
        else if (c.what == call::kind::leave_unused)
            judge().refunded(c, 1, 0, now);
        else
            judge().came_home(c, 1, 0, now);
    }
    [[nodiscard]] time_point next_event(time_point now) const { return judge().next_event(now); }
    void holds(seat const& s) { judge().holds(s.held.id(), s.held.count()); }
    using plain::one_limiter::quiet;
    void quiet(core* c, station const&, oracle::quiet_view seen) {
        if (c) {
            seen.stats = c->stats();
            seen.waits = c->ask([](auto const& r, time_point) { return r.waits(); });
        }
        judge().quiet(seen);
    }
    void finished() const { judge().finished(); }
    [[nodiscard]] weir::limiter_stats const& counted() const { return judge().counted(); }

private:
    [[nodiscard]] oracle& judge() const noexcept { return world_.judge; }

    simulation& world_;
    options_type options_;
};

}  // namespace

outcomes run(scenario const& s, chooser& choices, grain how_fine, bool aloud) {
    auto const play = [&]<class Policy>(std::type_identity<Policy>) {
        typename Policy::options_type const options;
        if (s.in_any)
            return world<plain<weir::policy::any>>(options, s, choices, how_fine, aloud).play();
        return world<plain<Policy>>(options, s, choices, how_fine, aloud).play();
    };
    switch (s.which) {
        case policy::seats:
            return play(std::type_identity<weir::policy::seats>());
        case policy::resting_seats:
            return play(std::type_identity<weir::policy::resting_seats>());
        case policy::sliding_log:
            return play(std::type_identity<weir::policy::sliding_log>());
        case policy::sliding_window:
            return play(std::type_identity<weir::policy::sliding_window>());
        case policy::fixed_window:
            return play(std::type_identity<weir::policy::fixed_window>());
        case policy::token_bucket:
            return play(std::type_identity<weir::policy::token_bucket>());
        case policy::leaky_bucket:
            return play(std::type_identity<weir::policy::leaky_bucket>());
        case policy::smooth_bursty:
            return play(std::type_identity<weir::policy::smooth_bursty>());
        case policy::smooth_warming_up:
            return play(std::type_identity<weir::policy::smooth_warming_up>());
        case policy::calendar_window:
            return play(std::type_identity<weir::policy::calendar_window>());
        case policy::server_quota:
            return world<plain<weir::policy::server_quota>>({}, s, choices, how_fine, aloud).play();
        case policy::adaptive_rate:
            return world<plain<weir::policy::adaptive_rate>>({}, s, choices, how_fine, aloud)
                .play();
        case policy::any:
            break;
    }
    return {};
}

}  // namespace explorer
