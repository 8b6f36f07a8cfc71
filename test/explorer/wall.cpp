#include "wall.hpp"

#include "simulation.hpp"
#include "support/zone_file.hpp"

#include <cstdint>
#include <utility>

namespace explorer {

weir::wall_time wall::read() noexcept {
    simulation::unfailing const ours;
    simulation::current().say("  reads the wall clock");
    simulation::current().judge.read_clock(now());
    return weir::wall_time(shows());
}

duration wall::shows() {
    return now().time_since_epoch() + simulation::current().wall_ahead;
}

time_point wall::now() {
    return simulation::current().threads.now();
}

weir::time_zone wall::zone() {
    static auto const zone = [] {
        support::zone_file file{.offsets = {static_cast<std::int32_t>(winter.count()),
                                            static_cast<std::int32_t>(summer.count())}};
        for (auto const& c : changes)
            file.changes.emplace_back(c.at.time_since_epoch().count(), c.offset == summer);
        return support::zone_folder().add("Test/Explorer", file);
    }();
    return zone;
}

}  // namespace explorer
