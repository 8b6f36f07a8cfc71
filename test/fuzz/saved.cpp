#include <weir/any_limiter.hpp>
#include <weir/keyed.hpp>
#include <weir/rate_tree.hpp>
#include <weir/saved_state.hpp>
#include <weir/saved_tree.hpp>

#include "support/saved_format.hpp"

#include <boost/asio/io_context.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

// Files of saved states. The first byte of the input selects whether the rest is a whole file, or the records of a file
// whose checksums are right, which a fuzzer cannot find.

namespace {

void require(bool is_so) {
    if (!is_so)
        std::abort();
}

// Small blocks, so that records span several.
std::string file_of(std::string_view records) {
    return support::saved::file_with(records, 0, 50);
}

weir::wall_time wall() noexcept {
    return weir::wall_time(std::chrono::hours(100));
}

// Rules of all kinds.
constexpr std::array<std::string_view, 12> rules{
    "10/60s",
    "10/60s sliding",
    "10/60s fixed",
    "100/1h burst 20",
    "100/1h bucket refill interval",
    "7/day",
    "5/1s bursty",
    "5/1min penalty",
    "4 knee",
    "20 vegas & 10/60s",
    "20 aimd min 5 slow_start 40 & 20 gradient2",
    "3 seats & 10/60s & 5/month"};

constexpr auto tree_text =
    "tree max_keys 100 / 100/1s burst 40, /acme 30/1s burst 10 most 60/1s, "
    "/acme/* most 2/3s burst 12, "
    "/acme/*/* most 1/1s, /* 1/1s burst 2 keys 5";

// A state that was restored can be saved and restored again.
void restore_tree(boost::asio::io_context& ctx, weir::saved_state const& state,
                  std::string_view name, bool is_second) {
    weir::rate_tree tree(ctx, weir::rate_tree_options::parse(tree_text));
    auto const result = restore(tree, state, name);
    require(result.is_restored || !result.reason.empty());
    require(result.is_restored || (!is_second && tree.stats().keys == 0));
    require(tree.stats().keys <= 100);
    for (weir::tree_path const& path :
         {weir::tree_path(), weir::tree_path("acme"), weir::tree_path("x")}) {
        auto const s = tree.stats(path).value_or(weir::rate_tree_stats());
        require(s.saved >= 0 && s.may_take >= 0 && s.lends >= 0 && s.debt >= 0 && s.keys >= 0);
    }
    static_cast<void>(tree.try_enter({"acme", "ann", "a"}));
    tree.charge({"x"}, weir::max_amount).leave();
    if (is_second)
        return;
    std::string again;
    weir::state_writer to([&](std::string_view bytes) { again += bytes; }, &wall);
    save(tree, to, "it");
    to.finish();
    restore_tree(ctx, weir::saved_state(std::move(again), &wall), "it", true);
}

void restore_each(std::string file) {
    try {
        weir::saved_state const state(std::move(file), &wall);
        boost::asio::io_context ctx;
        for (auto const name : state.names()) {
            require(state.names().size() < 1'000'000);
            restore_tree(ctx, state, name, false);
            for (auto const text : rules) {
                auto const rule = weir::limiter_config::parse(text);
                weir::any_limiter one(ctx, rule);
                static_cast<void>(restore(one, state, name));
                require(one.stats().remaining >= 0);
                require(one.stats().capacity >= 0);
                static_cast<void>(one.try_enter());
                weir::keyed<std::uint64_t, weir::policy::any> many(ctx, rule, {.max_keys = 100});
                auto const result = restore(many, state, name);
                require(many.stats().keys <= 100);
                static_cast<void>(result);
                require(many.stats(1U).remaining >= 0);
                static_cast<void>(many.try_enter(1U));
                std::string again;
                weir::state_writer to([&](std::string_view bytes) { again += bytes; }, &wall);
                save(one, to, "one");
                save(many, to, "many");
                to.finish();
                weir::saved_state const second(std::move(again), &wall);
                require(second.names().size() == 2);
            }
            break;
        }
    } catch (weir::bad_saved_state const&) {}
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    std::string_view const all(reinterpret_cast<char const*>(data), size);
    if (all.empty())
        return 0;
    restore_each(all.front() == 'f' ? std::string(all.substr(1)) : file_of(all.substr(1)));
    return 0;
}
