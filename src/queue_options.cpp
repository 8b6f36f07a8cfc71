#include <weir/queue_options.hpp>

#include "check_option.hpp"

namespace weir {

void validate(queue_options const& options) {
    using detail::check_option;
    check_option("queue_options", "limit", options.limit, 0, 1'000'000'000);
    check_option("queue_options", "order", static_cast<std::int64_t>(options.order), 0,
                 static_cast<std::int64_t>(queue_order::fifo));
    check_option("queue_options", "full", static_cast<std::int64_t>(options.full), 0,
                 static_cast<std::int64_t>(when_full::evict_oldest));
    check_option("queue_options", "tolerance in nanoseconds", options.tolerance.count(), 0,
                 duration(std::chrono::hours(1)).count());
}

}  // namespace weir
