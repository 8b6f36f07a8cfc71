#include <weir/policy/any.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace weir::inline v0_2::policy {
namespace {

using policies = detail::chosen_at_run_time::policies<all_chosen>;

// The alternatives of the two variants correspond.
template <std::size_t I = 0>
policies make(limiter_config::options_type const& options) {
    if constexpr (I + 1 < std::variant_size_v<policies>) {
        if (options.index() != I)
            return make<I + 1>(options);
    }
    return policies(std::in_place_index<I>, std::get<I>(options));
}

std::vector<any> made_of(std::vector<limiter_config> const& configs) {
    if (configs.empty())
        throw std::invalid_argument("weir::any_limiter: the list of limits is empty");
    std::vector<any> parts;
    parts.reserve(configs.size());
    for (auto const& config : configs)
        parts.emplace_back(config);
    return parts;
}

}  // namespace

all_chosen::all_chosen(options_type const& options) : joint(made_of(options.parts)) {}

bool all_chosen::is_like(all_chosen const& other) const noexcept {
    return std::ranges::equal(parts(), other.parts(), [](any const& a, any const& b) {
        return a.is_like(b);
    });
}

void all_chosen::take_over(all_chosen& before, time_point now) {
    for (std::size_t i = 0; i != parts().size(); ++i)
        parts()[i].take_over(before.parts()[i], now);
    take_tickets(before);
}

all_options all_chosen::options() const {
    std::vector<limiter_config> configs;
    for (auto const& part : parts())
        configs.push_back(part.options());
    return all_options(std::move(configs));
}

any::any(options_type const& options) : policy_(make(options.options)) {}

bool any::is_like(any const& other) const noexcept {
    auto const* const all = std::get_if<all_chosen>(&policy_);
    return policy_.index() == other.policy_.index() &&
           (!all || all->is_like(std::get<all_chosen>(other.policy_)));
}

void any::take_over(any& before, time_point now) {
    if (!is_like(before))
        throw std::invalid_argument(
            "weir::any_limiter: cannot change `" + to_string(before.options()) + "` to `" +
            to_string(options()) + "`: the kind of limiter is fixed");
    std::visit([&]<class Policy>(Policy& p) { p.take_over(std::get<Policy>(before.policy_), now); },
               policy_);
}

}  // namespace weir::inline v0_2::policy
