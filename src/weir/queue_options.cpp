#include <weir/queue_options.hpp>

#include "check_option.hpp"
#include "option_text.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <tuple>

namespace weir::inline v0_2 {

template <>
inline constexpr std::array<std::string_view, 2> detail::names_of<when_full>{
    "reject_newest", "evict_oldest"};

template <>
inline constexpr std::array<std::string_view, 7> detail::names_of<queue_order>{
    "fifo", "lifo", "adaptive_lifo", "codel", "priority", "fair", "shares"};

namespace {

using detail::field;

constexpr std::tuple option_fields{
    field{"name", &queue_options::name},
    field{"max_waiting", &queue_options::max_waiting},
    field{"full", &queue_options::full},
    field{"max_waiting_permits", &queue_options::max_waiting_permits},
    field{"max_expected_wait", &queue_options::max_expected_wait},
    field{"order", &queue_options::order},
    field{"target", &queue_options::target},
    field{"interval", &queue_options::interval},
    field{"ageing", &queue_options::ageing},
    field{"partitions", &queue_options::partitions},
    field{"tolerance", &queue_options::tolerance},
    field{"jitter", &queue_options::jitter},
    field{"patience", &queue_options::patience},
    field{"dry_run", &queue_options::dry_run},
};

void check(partitions const& all) {
    auto const reject = [](std::string const& what) {
        throw std::invalid_argument("weir::queue_options: " + what);
    };
    amount percent = 0;
    for (auto const& one : all) {
        auto const name = std::string(one.name());
        if (name.empty() || !std::ranges::all_of(name, detail::is_of_a_name))
            reject("invalid partition name `" + name + "`: use letters, digits, `_`, `-` and `.`");
        auto const same = [&](partition const& other) { return other.flow() == one.flow(); };
        if (std::ranges::count_if(all, same) != 1)
            reject("duplicate partition `" + name + "`");
        percent += one.percent();
    }
    if (percent > 100)
        reject("the partitions add up to " + detail::to_text(percent) +
               " per cent; the maximum is 100");
}

}  // namespace

queue_options queue_options::parse(std::string_view text) {
    detail::reader in("weir::queue_options", text);
    queue_options options;
    detail::read_options(in, options, option_fields);
    return options;
}

std::string to_string(queue_options const& options) {
    std::string text;
    detail::write_options(text, options, option_fields);
    return text;
}

void validate(queue_options const& options) {
    using detail::check_duration;
    using detail::check_option;
    if (auto const name = options.name.view(); !std::ranges::all_of(name, detail::is_of_a_name))
        throw std::invalid_argument("weir::queue_options: invalid name `" + std::string(name) +
                                    "`: use letters, digits, `_`, `-` and `.`");
    check_option("queue_options", "max_waiting", options.max_waiting, 0, unlimited);
    check_option("queue_options", "full", options.full, when_full::evict_oldest);
    check_option("queue_options", "max_waiting_permits", options.max_waiting_permits, 1, unlimited);
    check_option("queue_options", "order", options.order, queue_order::shares);
    constexpr duration hour = std::chrono::hours(1);
    check_duration("queue_options", "target", options.target, duration(1), hour);
    check_duration("queue_options", "interval", options.interval, duration(1), hour);
    check_duration("queue_options", "ageing", options.ageing, duration(1), hour);
    check_duration("queue_options", "tolerance", options.tolerance, duration::zero(), hour);
    check_duration("queue_options", "jitter", options.jitter, duration::zero(), hour);
    check(options.partitions);
}

void detail::check_change(queue_order before, queue_order after) {
    if (before != after && (before == queue_order::shares || after == queue_order::shares))
        throw std::invalid_argument("weir::queue_options: cannot change the order from " +
                                    to_text(before) + " to " + to_text(after));
}

void detail::check_order(queue_options const& options, queue_order of_type) {
    if (options.order != queue_order::fifo && options.order != of_type)
        throw std::invalid_argument("weir::queue_options: order is " + to_text(options.order) +
                                    ", but the type of this limiter fixes " + to_text(of_type));
}

}  // namespace weir::inline v0_2
