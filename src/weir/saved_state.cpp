#include <weir/policy/calendar_window.hpp>
#include <weir/saved_state.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <stdexcept>
#include <variant>

namespace weir::inline v0_2 {
namespace {

// Makes `c` read the wall clock of `current`, which no text has.
void use_clock_of(limiter_config& c, limiter_config const& current) {
    if (auto* const window = std::get_if<calendar_window_options>(&c.options))
        window->clock = std::get<calendar_window_options>(current.options).clock;
    if (auto* const all = std::get_if<all_options>(&c.options)) {
        auto const& its = std::get<all_options>(current.options);
        for (std::size_t i = 0; i != all->parts.size(); ++i)
            use_clock_of(all->parts[i], its.parts[i]);
    }
}

}  // namespace

namespace detail {

std::optional<limiter_config> parse_like(std::string_view text, limiter_config const& current) {
    try {
        auto parsed = limiter_config::parse(text);
        if (!policy::any(parsed).is_like(policy::any(current)))
            return std::nullopt;
        use_clock_of(parsed, current);
        return parsed;
    } catch (std::invalid_argument const&) {
        return std::nullopt;
    }
}

std::string not_found(std::string_view name) {
    return fmt::format("no limiter was saved as `{}`", name);
}
std::string not_of_keys(bool is_keyed) {
    return is_keyed ? "it was saved with a state for each key"
                    : "it was saved without a state for each key";
}
std::string other_kind(std::string_view saved, std::string_view current) {
    return fmt::format("the saved rule `{}` cannot become `{}`", saved, current);
}
std::string wrong_numbers(std::string_view rule) {
    return fmt::format("a limiter `{}` cannot have the saved numbers", rule);
}
std::string no_place() {
    return "the limiter has no place for more keys";
}

}  // namespace detail
}  // namespace weir::inline v0_2
