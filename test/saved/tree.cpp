#include <weir/any_limiter.hpp>
#include <weir/keyed.hpp>
#include <weir/rate_tree.hpp>
#include <weir/saved_tree.hpp>
#include <weir/testing.hpp>
#include <weir/token_bucket.hpp>

#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/rate_tree_oracle.hpp"
#include "support/rate_tree_world.hpp"
#include "support/saved_files.hpp"
#include "support/saved_format.hpp"

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/wait_traits.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using support::random_source;
using support::saved::file_of;
using support::saved::pass;
using support::saved::restore;
using support::saved::wall;
using weir::amount;
using weir::duration;
using weir::error_code;
using weir::permit;
using weir::rate_tree_options;
using weir::saved_state;
using weir::state_writer;
using weir::testing::clock;

BOOST_AUTO_TEST_SUITE(a_restored_tree)

namespace {

using executor = asio::io_context::executor_type;
using limiter = weir::basic_rate_tree<executor, weir::testing::basic_timer<executor>>;

// A clock that advances by `step` whenever it is read.
struct ticking_clock {
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<ticking_clock>;
    [[maybe_unused]] static constexpr bool is_steady = true;

    static time_point now() noexcept { return time_point(ticks += step); }

    inline static duration ticks{};
    inline static duration step{};
};

// Limiters that get the same requests at the same times, and must decide alike.
class twins {
public:
    twins(asio::io_context& context, random_source& random, rate_tree_options const& options,
          std::vector<limiter*> limiters)
        : context_(context), random_(random), nodes_(options), limiters_(std::move(limiters)) {
        for (std::size_t i = 0; i != nodes_.nodes().size(); ++i) {
            names_.push_back(names_of(i));
            if (nodes_.is_leaf(i))
                leaves_.push_back(i);
        }
    }

    void play(int steps) {
        for (; steps != 0; --steps) {
            auto const& leaf = names_[leaves_[random_.index_in(leaves_)]];
            auto const n = random_.one_in(2) ? 1 : random_.between(1, 6);
            auto const what = random_.between(0, 99);
            if (what < 40)
                each(leaf, [&](limiter& l, auto const& path) { return l.try_enter(path, n); });
            else if (what < 50)
                each(leaf,
                     [&](limiter& l, auto const& path) { return l.try_enter_up_to(path, n); });
            else if (what < 75)
                enter(leaf, n);
            else if (what < 83)
                give_back();
            else if (what < 87)
                each(leaf, [&](limiter& l, auto const& path) { return l.charge(path, n + 3); });
            compare();
            weir::testing::run_for(
                context_,
                duration(random_.one_in(12) ? random_.between(0, 200) : random_.between(0, 4)));
        }
    }
    // Lets all waiting requests be granted, and ends all permits.
    void end() {
        for (int i = 0; i != 2'000 && !waits_.empty(); ++i) {
            weir::testing::run_for(context_, 20ns);
            compare();
        }
        BOOST_TEST_REQUIRE(waits_.empty());
        held_.clear();
    }
    void compare() {
        weir::testing::run_for(context_, 0ns);
        std::erase_if(waits_, [&](auto& w) {
            for (auto const& one : *w)
                BOOST_TEST_REQUIRE(one.is_over == w->front().is_over);
            if (!w->front().is_over)
                return false;
            for (auto const& one : *w) {
                BOOST_TEST_REQUIRE(one.error == w->front().error);
                BOOST_TEST_REQUIRE(
                    one.granted.waited().count() == w->front().granted.waited().count());
            }
            std::vector<permit> granted;
            for (auto& one : *w)
                granted.push_back(std::move(one.granted));
            hold(std::move(granted));
            return true;
        });
        for (auto const& names : names_) {
            weir::tree_path const path{std::span(names)};
            auto const first = limiters_.front()->stats(path);
            for (auto* const l : limiters_) {
                // A node that does not exist is as if it was never used.
                auto const its = l->stats(path);
                if (!first || !its)
                    continue;
                BOOST_TEST_REQUIRE(its->saved == first->saved);
                BOOST_TEST_REQUIRE(its->may_take == first->may_take);
                BOOST_TEST_REQUIRE(its->lends == first->lends);
                BOOST_TEST_REQUIRE(its->debt == first->debt);
            }
        }
    }
    [[nodiscard]] std::uint64_t granted() const { return granted_; }
    [[nodiscard]] std::vector<std::vector<std::string>> const& names() const { return names_; }

private:
    struct waiting {
        bool is_over = false;
        error_code error;
        permit granted;
    };

    [[nodiscard]] std::vector<std::string> names_of(std::size_t i) const {
        std::vector<std::string> names;
        for (; i != 0; i = nodes_.nodes()[i].parent) {
            auto const& n = nodes_.nodes()[i];
            auto const name = n.path.substr(n.path.rfind('/') + 1);
            names.insert(names.begin(), name == "*" ? "key/" + std::to_string(n.key) : name);
        }
        return names;
    }
    template <class Ask>
    void each(std::vector<std::string> const& leaf, Ask ask) {
        weir::tree_path const path{std::span(leaf)};
        std::vector<permit> granted;
        for (auto* const l : limiters_)
            granted.push_back(ask(*l, path));
        hold(std::move(granted));
    }
    void hold(std::vector<permit> granted) {
        for (auto const& p : granted)
            BOOST_TEST_REQUIRE(p.count() == granted.front().count());
        if (!granted.front())
            return;
        ++granted_;
        held_.push_back(std::move(granted));
    }
    void enter(std::vector<std::string> const& leaf, amount n) {
        weir::tree_path const path{std::span(leaf)};
        auto& all = *waits_.emplace_back(std::make_unique<std::vector<waiting>>(limiters_.size()));
        for (std::size_t i = 0; i != limiters_.size(); ++i)
            limiters_[i]->async_enter(
                path, n, weir::forever, [&one = all[i]](error_code ec, permit p) {
                    one = {.is_over = true, .error = ec, .granted = std::move(p)};
                });
    }
    void give_back() {
        if (held_.empty())
            return;
        auto const i = random_.index_in(held_);
        bool const is_unused = random_.one_in(2);
        for (auto& p : held_[i]) {
            if (is_unused)
                p.refund();
            p = permit();
        }
        held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
    }

    asio::io_context& context_;
    random_source& random_;
    support::rate_tree_oracle nodes_;
    std::vector<limiter*> limiters_;
    std::vector<std::vector<std::string>> names_;
    std::vector<std::size_t> leaves_;
    std::vector<std::unique_ptr<std::vector<waiting>>> waits_;
    std::vector<std::vector<permit>> held_;
    std::uint64_t granted_ = 0;
};

constexpr auto text =
    "tree / 100/1s burst 40, /acme 30/1s burst 10 most 60/1s, /acme/* most 2/1s burst 12, "
    "/* 1/1s burst 2 keys 5";

}  // namespace

// The oracle is the saved tree itself: it continues, without a request until the other one is restored.
BOOST_AUTO_TEST_CASE(decides_like_one_that_went_on) {
    std::uint64_t granted = 0;
    support::for_each_seed(1, support::number_of_trees(), [&](random_source& random) {
        auto const options = support::rate_tree_maker(random).make();
        asio::io_context ctx;
        weir::queue_options const queueing{.max_waiting = 1'000, .tolerance = 0ns};
        limiter went_on(ctx, options, queueing);
        twins before(ctx, random, options, {&went_on});
        before.play(static_cast<int>(random.between(0, 100)));
        before.end();
        auto const file = file_of(went_on);
        pass(duration(random.one_in(3) ? 0 : random.of_any_size(1'000)));

        limiter restored(ctx, options, queueing);
        if (random.one_in(3)) {  // these grants are forgotten
            twins other(ctx, random, options, {&restored});
            for (auto const& names : other.names())
                restored.charge(weir::tree_path(std::span(names)), 3).leave();
        }
        auto const result = restore(restored, file);
        BOOST_TEST_REQUIRE(result.is_restored);
        BOOST_TEST_REQUIRE(result.dropped == 0U);
        BOOST_TEST_REQUIRE(result.reason == "");
        twins after(ctx, random, options, {&went_on, &restored});
        after.compare();
        after.play(60);
        after.end();
        granted += after.granted();
    });
    BOOST_TEST(granted > 0U);
}

// The oracle is the saved tree after `configure`.
BOOST_AUTO_TEST_CASE(with_other_options_goes_on_as_after_a_change) {
    int changed = 0;
    int refused = 0;
    support::for_each_seed(1, support::number_of_trees(), [&](random_source& random) {
        auto const options = support::rate_tree_maker(random).make();
        auto const next = support::rate_tree_maker(random).make();
        asio::io_context ctx;
        weir::queue_options const queueing{.max_waiting = 1'000, .tolerance = 0ns};
        limiter went_on(ctx, options, queueing);
        twins before(ctx, random, options, {&went_on});
        before.play(60);
        before.end();
        // Each key is in use. A key like new may be forgotten or not, which makes a difference to a change.
        for (auto const& names : before.names())
            went_on.charge(weir::tree_path(std::span(names)), 20).leave();
        auto const file = file_of(went_on);
        pass(duration(random.between(0, 10)));
        limiter restored(ctx, next, queueing);
        auto const result = restore(restored, file);
        try {
            went_on.configure(next);
        } catch (std::invalid_argument const& e) {
            ++refused;
            BOOST_TEST_REQUIRE(!result.is_restored);
            BOOST_TEST_REQUIRE(result.reason == e.what());
            limiter anew(ctx, next, queueing);
            twins(ctx, random, next, {&anew, &restored}).play(30);
            return;
        }
        ++changed;
        BOOST_TEST_REQUIRE(result.is_restored);
        twins after(ctx, random, next, {&went_on, &restored});
        after.compare();
        after.play(40);
        after.end();
    });
    BOOST_TEST(changed > 0);
    BOOST_TEST(refused > 0);
}

BOOST_AUTO_TEST_CASE(saves_only_nodes_that_are_not_like_new) {
    asio::io_context ctx;
    pass(3h);  // so that the wall time has the same number of bytes
    limiter tree(ctx, rate_tree_options::parse(text));
    auto const empty = file_of(tree).size();
    for (int i = 0; i != 1'000; ++i)
        tree.charge({"acme", std::to_string(i)}, 1).leave();
    BOOST_TEST(file_of(tree).size() > empty + 8'000);
    pass(1s);
    // /acme and the root lack more; each user of it is like new.
    BOOST_TEST(file_of(tree).size() < empty + 50);
    BOOST_TEST(file_of(tree).size() > empty);
    pass(1h);
    BOOST_TEST(file_of(tree).size() == empty);
}

BOOST_AUTO_TEST_CASE(counts_its_keys) {
    asio::io_context ctx;
    limiter saved(ctx, rate_tree_options::parse(text));
    for (int i = 0; i != 3; ++i)
        saved.charge({"acme", std::to_string(i)}, 5).leave();
    saved.charge({"other"}, 1).leave();
    auto const file = file_of(saved);
    limiter next(ctx, rate_tree_options::parse(text));
    auto const result = restore(next, file);
    BOOST_TEST(result.is_restored);
    BOOST_TEST(result.keys == 4U);
    BOOST_TEST(result.dropped == 0U);
    BOOST_TEST(next.stats().keys == 4U);
    pass(4s);  // in the time away a key may recover
    limiter later(ctx, rate_tree_options::parse(text));
    BOOST_TEST(restore(later, file).keys == 0U);
    BOOST_TEST(later.stats({"acme"}).value().saved == 10);
}

BOOST_AUTO_TEST_CASE(drops_the_keys_that_have_no_place) {
    asio::io_context ctx;
    auto const options = rate_tree_options::parse("tree / 100/1s, /* most 1/1s burst 9 keys 80");
    limiter saved(ctx, options);
    for (int i = 0; i != 80; ++i)
        saved.charge({std::to_string(i)}, 3).leave();
    auto few = options;
    few.max_keys = 30;
    limiter next(ctx, few);
    auto const result = restore(next, file_of(saved));
    BOOST_TEST(result.is_restored);
    BOOST_TEST(result.keys == 30U);
    BOOST_TEST(result.dropped == 50U);
    BOOST_TEST(result.reason == "the limiter has no place for more keys");
    BOOST_TEST(next.stats({}).value().debt == 140);  // what all keys have used
}

BOOST_AUTO_TEST_CASE(takes_no_state_of_other_limiters_and_gives_them_none) {
    asio::io_context ctx;
    limiter tree(ctx, rate_tree_options::parse(text));
    tree.charge({"acme", "ann"}, 3).leave();
    using buckets = weir::basic_keyed<std::string, weir::policy::token_bucket,
                                      asio::any_io_executor, weir::testing::timer>;
    buckets by_key(ctx, {.rate = {10, 60s}});
    by_key.charge("ann", 3).leave();
    weir::testing::limiter<weir::any_limiter> one(ctx, weir::limiter_config::parse("10/60s"));

    auto const of_tree = file_of(tree);
    auto const after_keys = restore(tree, file_of(by_key));
    BOOST_TEST(!after_keys.is_restored);
    BOOST_TEST(after_keys.dropped == 1U);
    BOOST_TEST(after_keys.reason ==
               "the saved rule `10/1min bucket` cannot become a tree of rates");
    BOOST_TEST(restore(tree, file_of(one)).reason == "it was saved without a state for each key");
    saved_state const other(of_tree, &wall);
    BOOST_TEST(restore(tree, other, "x").reason == "no limiter was saved as `x`");
    BOOST_TEST(tree.stats({"acme", "ann"}).value().may_take == 9);

    auto const of_keys = restore(by_key, of_tree);
    BOOST_TEST(!of_keys.is_restored);
    BOOST_TEST(of_keys.dropped == 1U);
    BOOST_TEST(by_key.stats("ann").remaining == 7);
    BOOST_TEST(restore(one, of_tree).reason == "it was saved with a state for each key");
}

namespace {

// A file with right checksums, whatever its records are.
std::string file_with(std::string_view rule, std::string_view named,
                      std::vector<std::string> const& keys) {
    std::string records;
    std::string content("\x02", 1);
    weir::number_writer to(content);
    to.add(0U);
    to.add(1U);
    to.add_bytes("it");
    to.add_bytes(rule);
    content += named;
    weir::number_writer(records).add_bytes(content);
    for (auto const& key : keys)
        weir::number_writer(records).add_bytes('\x04' + key);
    std::string end("\x00", 1);
    weir::number_writer(end).add(1 + keys.size());
    weir::number_writer(records).add_bytes(end);
    return support::saved::file_with(records);
}
// A path and the numbers of its state.
std::string node(std::vector<std::string> const& names,
                 std::vector<weir::number_writer::wide> const& numbers) {
    std::string path;
    for (auto const& name : names)
        weir::number_writer(path).add_bytes(name);
    std::string all;
    weir::number_writer to(all);
    to.add_bytes(path);
    for (auto const n : numbers)
        to.add(n);
    return all;
}

}  // namespace

// A permit of this tree is 10^9 drops, because the period of all rates is a second.
BOOST_AUTO_TEST_CASE(reads_the_documented_format) {
    asio::io_context ctx;
    limiter tree(ctx, rate_tree_options::parse(text));
    weir::number_writer::wide const permit = 1'000'000'000;
    auto const file = file_with(
        text, node({}, {5 * permit}) + node({"acme"}, {2 * permit, 59 * permit}),
        {node({"acme", "ann"}, {13 * permit}), node({"bob"}, {permit}), node({"a/b"}, {permit})});
    // At the wall time of the file, so that no time has passed.
    saved_state const state(file, []() noexcept { return weir::wall_time(); });
    auto const result = restore(tree, state, "it");
    BOOST_TEST(result.is_restored);
    BOOST_TEST(result.keys == 3U);
    BOOST_TEST(tree.stats({}).value().saved == 35);
    BOOST_TEST(tree.stats({"acme"}).value().saved == 8);
    BOOST_TEST(tree.stats({"acme"}).value().may_take == 1);
    BOOST_TEST(tree.stats({"acme", "ann"}).value().debt == 1);
    BOOST_TEST(tree.stats({"bob"}).value().saved == 1);
    BOOST_TEST(tree.stats({"a/b"}).value().saved == 1);
    BOOST_TEST(tree.stats({}).value().lends == 40 - 10 - 5 * 2 - 5 + 2 + 1 + 1);
}

BOOST_AUTO_TEST_CASE(refuses_nodes_that_its_options_cannot_have_and_changes_nothing) {
    asio::io_context ctx;
    limiter tree(ctx, rate_tree_options::parse(text));
    tree.charge({"acme", "ann"}, 3).leave();
    int number = 0;
    auto const refuses = [&](std::string const& file, std::string_view reason) {
        BOOST_TEST_CONTEXT("refusal " << ++number) {
            auto const result = restore(tree, file);
            BOOST_TEST(!result.is_restored);
            BOOST_TEST(result.keys == 0U);
            BOOST_TEST(result.reason == reason);
            BOOST_TEST(tree.stats({"acme", "ann"}).value().may_take == 9);
            BOOST_TEST(tree.stats({"acme"}).value().saved == 7);
            BOOST_TEST(tree.stats().keys == 1U);
        }
    };
    constexpr auto wrong = "the saved tree of rates cannot have the saved nodes";
    auto const huge = weir::number_writer::wide{1} << 124;
    auto const good = node({}, {1}) + node({"acme"}, {1, 1});
    refuses(file_with(text, node({"beta"}, {1, 1}), {}), wrong);             // no such node
    refuses(file_with(text, node({"acme"}, {1}), {}), wrong);                // a number is missing
    refuses(file_with(text, node({}, {0}), {}), wrong);                      // like new
    refuses(file_with(text, node({}, {huge + 1}), {}), wrong);               // too much
    refuses(file_with(text, node({"acme", "ann"}, {1}), {}), wrong);         // a key
    refuses(file_with(text, good, {node({"acme"}, {1, 1})}), wrong);         // not a key
    refuses(file_with(text, good, {node({"x", "y"}, {1})}), wrong);          // too deep
    refuses(file_with(text, good, {node({"acme", "bob"}, {1, 1})}), wrong);  // one number too many
    refuses(file_with(text, good, {node({"acme", "bob"}, {})}), wrong);
    refuses(file_with(text, good, {node(std::vector<std::string>(16, "x"), {1})}), wrong);
    refuses(file_with(text, good,
                      {"\x05"
                       "abc"}),
            wrong);  // a name is cut
    refuses(file_with(text, good, {node({"a"}, {huge / 2}), node({"b"}, {huge / 2 + 1})}), wrong);
    refuses(file_with(text, good, {node({"acme", "bob"}, {5}), node({"acme", "bob"}, {0})}), wrong);
    refuses(file_with("tree / 10", "", {}), "the saved options of the tree of rates are wrong");
    refuses(file_with("tree /acme 1/1s", "", {}),
            "the saved options of the tree of rates are wrong");
    refuses(file_with("", "", {node({"a"}, {1})}),
            "the saved rule `` cannot become a tree of rates");
    BOOST_TEST(restore(tree, file_with(text, good, {node({"a"}, {huge / 2}), node({"b"}, {7})}))
                   .is_restored);
}

BOOST_AUTO_TEST_CASE(keeps_permits_in_use_and_serves_requests_that_wait) {
    asio::io_context ctx;
    auto const options =
        rate_tree_options::parse("tree / 10/1s burst 10, /a 4/1s burst 4, /b 4/1s burst 4");
    limiter saved(ctx, options);
    saved.charge({"a"}, 6).leave();
    auto const file = file_of(saved);  // /a lacks 2 more than its burst
    limiter next(ctx, options);
    auto held = next.charge({"b"}, 24);  // a debt of 20
    std::optional<clock::time_point> at;
    auto const start = clock::now();
    next.async_enter({"b"}, 1, weir::forever, [&](error_code ec, permit p) {
        BOOST_TEST(!ec);
        BOOST_TEST(p.count() == 1);
        at = clock::now();
    });
    weir::testing::run_for(ctx, 1s);
    BOOST_TEST(!at);
    BOOST_TEST(restore(next, file).is_restored);
    weir::testing::run_for(ctx, 0s);
    BOOST_TEST((at == start + 1s));
    BOOST_TEST(next.stats({"a"}).value().saved == 2);  // the second since the saving counts
    held.refund();
    BOOST_TEST(next.stats({"b"}).value().saved == 4);

    // And if there is less than before, it waits for longer.
    limiter third(ctx, options);
    third.charge({"a"}, 4).leave();
    third.charge({"b"}, 4).leave();
    third.charge({"a"}, 2).leave();  // all that the root lends
    auto const more = [&] {
        limiter from(ctx, options);
        from.charge({"a"}, 8).leave();
        return file_of(from);
    }();
    at.reset();
    auto const then = clock::now();
    third.async_enter({"a"}, 1, weir::forever, [&](error_code, permit) { at = clock::now(); });
    BOOST_TEST(restore(third, more).is_restored);
    weir::testing::run_for(ctx, 10s);
    BOOST_TEST((at == then + 1s));  // it borrows when its debt of 4 permits is paid
}

// The portions of a large tree are saved at different times.
BOOST_AUTO_TEST_CASE(continues_each_node_from_its_own_time) {
    asio::io_context ctx;
    auto const still = []() noexcept { return weir::wall_time(ticking_clock::ticks); };
    using tree = weir::basic_rate_tree<
        executor,
        asio::basic_waitable_timer<ticking_clock, asio::wait_traits<ticking_clock>, executor>>;
    auto const options =
        rate_tree_options::parse("tree / 1000/1s burst 50000, /* most 1/1s burst 200");
    tree saved(ctx, options);
    for (int i = 0; i != 10'000; ++i)
        saved.charge({std::to_string(i)}, 190).leave();
    std::string file;
    state_writer to([&](std::string_view bytes) { file += bytes; }, +still);
    ticking_clock::step = 1s;
    save(saved, to, "it");
    ticking_clock::step = 0s;
    to.finish();
    saved_state const state(std::move(file), +still);
    tree next(ctx, options);
    auto const result = restore(next, state, "it");
    BOOST_TEST(result.keys == 10'000U);
    for (int i = 0; i != 10'000; ++i) {
        auto const name = std::to_string(i);
        auto const more =
            next.stats({name}).value().may_take - saved.stats({name}).value().may_take;
        BOOST_REQUIRE_GE(more, 0);  // the wall clock and the other one are not read at once
        BOOST_REQUIRE_LE(more, 2);
    }
    auto const more = saved.stats({}).value().debt - next.stats({}).value().debt;
    BOOST_TEST(more >= 0);
    BOOST_TEST(more <= 2'000);
}

// So permits that are granted during the saving count at the root, and it never grants more than its rate.
BOOST_AUTO_TEST_CASE(was_saved_with_its_children_before_their_parents) {
    weir::detail::tree_slots slots(rate_tree_options::parse(text), {});
    auto const more = rate_tree_options::parse(
        "tree / 100/1s burst 90, /acme 30/1s burst 40, /acme/b 1/1s burst 30, /acme/b/c 1/1s burst "
        "9, "
        "/acme/b/c/d most 1/1s, /acme/* most 1/1s, /new 2/1s burst 4, /* most 1/1s");
    slots.configure(more, weir::time_point());
    auto progress = slots.begin_visit();
    std::vector<std::string> paths;
    while (!progress.is_done())
        slots.visit_some(progress, [&](weir::policy::tree_node n) {
            paths.push_back(slots.tree().plan().kinds[n.kind].path);
        });
    BOOST_TEST(paths.size() == 6U);  // there is no key
    BOOST_TEST(paths.back() == "/");
    for (std::size_t i = 1; i < paths.size(); ++i)
        BOOST_TEST(std::ranges::count(paths[i - 1], '/') >= std::ranges::count(paths[i], '/'));
}

BOOST_AUTO_TEST_CASE(is_saved_while_threads_use_it) {
    asio::io_context ctx;
    auto const options = rate_tree_options::parse(
        "tree / 1000/1h burst 100000, /* most 10/1h burst 10, /*/* most 10/1h burst 10");
    weir::rate_tree tree(ctx, options);
    for (int i = 0; i != 3'000; ++i)
        tree.charge({"a", std::to_string(i)}, 2).leave();
    std::atomic<bool> done = false;
    std::thread other([&] {
        for (int i = 0; !done; ++i) {
            tree.try_enter({"b" + std::to_string(i % 900), std::to_string(i % 5'000)}).leave();
            if (i % 5'000 == 0)
                tree.configure(options);
        }
    });
    for (int i = 0; i != 10; ++i) {
        std::string file;
        state_writer to([&](std::string_view bytes) { file += bytes; });
        save(tree, to, "it");
        to.finish();
        weir::rate_tree next(ctx, options);
        saved_state const state(std::move(file));
        BOOST_TEST(restore(next, state, "it").is_restored);
        for (int k = 0; k != 3'000; ++k)
            BOOST_REQUIRE_EQUAL(next.stats({"a", std::to_string(k)}).value().may_take, 8);
    }
    done = true;
    other.join();
}

BOOST_AUTO_TEST_SUITE_END()
