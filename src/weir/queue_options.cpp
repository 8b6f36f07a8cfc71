#include <weir/queue_options.hpp>

#include "check_option.hpp"
#include "option_text.hpp"

#include <array>
#include <tuple>

namespace weir {

template <>
inline constexpr std::array<std::string_view, 2> detail::names_of<when_full>{
    "reject_newest", "evict_oldest"};

namespace {

using detail::field;

constexpr std::tuple fields{
    field{"limit", &queue_options::limit},
    field{"full", &queue_options::full},
    field{"tolerance", &queue_options::tolerance},
    field{"patience", &queue_options::patience},
};

}  // namespace

queue_options queue_options::parse(std::string_view text) {
    detail::reader in("weir::queue_options", text);
    queue_options options;
    detail::read_options(in, options, fields);
    return options;
}

std::string to_string(queue_options const& options) {
    std::string text;
    detail::write_options(text, options, fields);
    return text;
}

void validate(queue_options const& options) {
    using detail::check_option;
    check_option("queue_options", "limit", options.limit, 0, 1'000'000'000);
    check_option("queue_options", "full", options.full, when_full::evict_oldest);
    check_option("queue_options", "tolerance in nanoseconds", options.tolerance.count(), 0,
                 duration(std::chrono::hours(1)).count());
}

}  // namespace weir
