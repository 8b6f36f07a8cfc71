#include <weir/policy/any.hpp>

#include <stdexcept>
#include <type_traits>

namespace weir::policy {
namespace {

using policies = detail::chosen_at_run_time::policies;

// The alternatives of the two variants correspond.
template <std::size_t I = 0>
policies make(limiter_config::options_type const& options) {
    if constexpr (I + 1 < std::variant_size_v<policies>) {
        if (options.index() != I)
            return make<I + 1>(options);
    }
    return policies(std::in_place_index<I>, std::get<I>(options));
}

}  // namespace

any::any(options_type const& options) : policy_(make(options.options)) {}

void any::take_over(any& before, time_point now) {
    std::visit(
        [&]<class Policy>(Policy& p) {
            auto* const old = std::get_if<Policy>(&before.policy_);
            if (!old)
                throw std::invalid_argument(
                    "weir::any_limiter: it is `" + to_string(before.options()) +
                    "` and cannot become `" + to_string(options()) +
                    "`, which is another kind of limiter");
            p.take_over(*old, now);
        },
        policy_);
}

}  // namespace weir::policy
