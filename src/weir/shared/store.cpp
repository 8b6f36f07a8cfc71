#include <weir/shared/store.hpp>

#include "../check_option.hpp"

#include <cstdint>
#include <stdexcept>

namespace weir::inline v0_2 {

void store::validate(policy::shared_bucket const& b) const {
    if (b.window != 0)
        throw std::invalid_argument(
            "weir::shared sliding_log: window in microseconds is " + std::to_string(b.window) +
            ", but this store does not support sliding_log");
}

void store::async_hold(std::string const&, seats_question const&, seats_handler) {
    throw std::logic_error("weir: this store does not support seats");
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): a store with messages keeps the pointer
void store::listen(policy::fed_seats::holder_id const&, std::weak_ptr<seats_listener>) {}

namespace detail {

void check_shared(std::string_view where, store const* e, std::string const& name) {
    if (!e)
        throw std::invalid_argument("weir::" + std::string(where) + ": the store is null");
    check_option(where, "length of name in bytes", static_cast<std::int64_t>(name.size()), 1, 255);
}

}  // namespace detail
}  // namespace weir::inline v0_2
