// Prints the windows of a calendar, one a line: the number of the unit, and the beginning of the window in seconds since
// 1970.
// usage: calendar_spans ZONE FIRST LAST     from the windows that contain FIRST to the ones that contain LAST
#include <weir/policy/calendar_cursor.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>

int main(int count, char** arguments) {
    using std::chrono::seconds;
    using std::chrono::sys_seconds;
    if (count != 4)
        return 2;
    try {
        weir::time_zone const zone(arguments[1]);
        sys_seconds const first(seconds(std::atoll(arguments[2])));
        sys_seconds const last(seconds(std::atoll(arguments[3])));
        for (auto const unit :
             {weir::calendar_unit::day, weir::calendar_unit::week, weir::calendar_unit::month}) {
            for (auto t = first; t <= last;) {
                auto const span = weir::policy::span_at(unit, zone, t);
                std::printf("%d %lld\n", static_cast<int>(unit),
                            static_cast<long long>(span.begin.time_since_epoch().count()));
                t = span.end;
            }
        }
    } catch (std::exception const& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
