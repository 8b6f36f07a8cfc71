#include <weir/rate_tree.hpp>
#include <weir/testing.hpp>

#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/rate_tree_oracle.hpp"
#include "support/rate_tree_requests.hpp"
#include "support/rate_tree_world.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// Compares a limiter with the turns of its tree, which test/policy/rate_tree_turns.cpp compares with their words: the same
// requests must be granted at the same times.

namespace asio = boost::asio;
using namespace std::chrono_literals;
using support::random_source;
using weir::amount;
using weir::duration;
using weir::error_code;
using weir::permit;
using weir::testing::clock;

namespace {

using executor = asio::io_context::executor_type;
using limiter_type = weir::basic_rate_tree<executor, weir::testing::basic_timer<executor>>;

class comparison {
public:
    comparison(random_source& random, weir::rate_tree_options const& options)
        : random_(random),
          nodes_(options),
          model_(weir::policy::rate_tree(options)),
          limiter_(context_, options, {.max_waiting = 1'000, .tolerance = 0ns}) {
        for (std::size_t i = 0; i != nodes_.nodes().size(); ++i) {
            if (nodes_.is_leaf(i))
                leaves_.push_back(i);
        }
    }

    void play(int steps) {
        for (; steps != 0; --steps) {
            auto const leaf = leaves_[random_.index_in(leaves_)];
            auto const most = model_.tree().capacity(node(leaf));
            auto const n = random_.between(1, random_.one_in(2) ? 1 : most);
            auto const what = random_.between(0, 99);
            if (what < 30)
                try_enter(leaf, n);
            else if (what < 60)
                enter(leaf, n);
            else if (what < 66)
                cancel();
            else if (what < 74)
                come_home();
            else if (what < 76)
                charge(leaf, n + 2);
            else if (what < 78)
                pause(random_.between(1, 60));
            pass(random_.one_in(12) ? random_.between(0, 200) : random_.between(0, 4));
        }
        for (auto const& [id, w] : waiting_)
            w->signal.emit(asio::cancellation_type::total);
        weir::testing::run_for(context_, 0ns);
        waiting_.clear();
        held_.clear();
        BOOST_TEST(limiter_.stats().total.live == 0U);
        BOOST_TEST(limiter_.stats().total.waiting == 0U);
    }
    [[nodiscard]] std::uint64_t waited() const { return waited_; }

private:
    struct waiting {
        std::size_t leaf = 0;
        amount count = 0;
        clock::time_point since;
        support::rate_tree_requests::place place;
        asio::cancellation_signal signal;
        bool is_over = false;
        error_code error;
        permit granted;
    };
    struct held {
        std::size_t leaf;
        permit granted;
        weir::ticket ticket;
    };

    [[nodiscard]] static weir::time_point now() {
        return weir::time_point(clock::now().time_since_epoch());
    }
    [[nodiscard]] std::string name_of(std::size_t i) const {
        auto const& n = nodes_.nodes()[i];
        auto const name = n.path.substr(n.path.rfind('/') + 1);
        return name == "*" ? "key" + std::to_string(n.key) : name;
    }
    [[nodiscard]] std::vector<std::string> names_of(std::size_t leaf) const {
        std::vector<std::string> names;
        for (; leaf != 0; leaf = nodes_.nodes()[leaf].parent)
            names.insert(names.begin(), name_of(leaf));
        return names;
    }
    weir::policy::tree_node node(std::size_t i) {
        if (i == 0)
            return weir::policy::rate_tree::root();
        auto& at = known_[i];
        if (!at) {
            auto const above = node(nodes_.nodes()[i].parent);
            at = model_.tree().find(above, name_of(i));
            if (!at)
                at = model_.add(above);
        }
        return at.value();
    }

    void try_enter(std::size_t leaf, amount n) {
        auto const names = names_of(leaf);
        error_code ec;
        auto p = limiter_.try_enter(weir::tree_path(names), n, ec);
        auto const expected = is_paused() ? std::nullopt : model_.try_take(node(leaf), n, now());
        BOOST_TEST_REQUIRE(static_cast<bool>(p) == expected.has_value());
        BOOST_TEST_REQUIRE((ec == (p ? error_code() : weir::errc::no_permit)));
        if (p)
            held_.push_back({leaf, std::move(p), *expected});
    }
    void enter(std::size_t leaf, amount n) {
        auto const id = ++last_id_;
        auto& w = waiting_[id] = std::make_unique<waiting>();
        w->leaf = leaf;
        w->count = n;
        w->since = clock::now();
        limiter_.async_enter(
            weir::tree_path(names_of(leaf)), n, weir::forever,
            asio::bind_cancellation_slot(w->signal.slot(), [&w = *w](error_code ec, permit p) {
                w.is_over = true;
                w.error = ec;
                w.granted = std::move(p);
            }));
        auto const at_once = is_paused() ? std::nullopt : model_.try_take(node(leaf), n, now());
        if (at_once)
            grant(id, *at_once);
        else
            w->place = model_.push(node(leaf), n, id, now());
        settle();
    }
    void cancel() {
        if (waiting_.empty())
            return;
        auto const at =
            std::next(waiting_.begin(), static_cast<std::ptrdiff_t>(random_.index_in(waiting_)));
        auto& w = *at->second;
        w.signal.emit(asio::cancellation_type::total);
        weir::testing::run_for(context_, 0ns);
        BOOST_TEST_REQUIRE(w.is_over);
        BOOST_TEST_REQUIRE(w.error == asio::error::operation_aborted);
        model_.erase(w.place, now());
        waiting_.erase(at);
        settle();
    }
    void come_home() {
        if (held_.empty())
            return;
        auto const i = random_.index_in(held_);
        auto h = std::move(held_[i]);
        held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
        if (random_.one_in(2)) {
            model_.refund(node(h.leaf), h.granted.count(), h.ticket, now());
            h.granted.refund();
        }
        h.granted = permit();
        settle();
    }
    void charge(std::size_t leaf, amount n) {
        auto p = limiter_.charge(weir::tree_path(names_of(leaf)), n);
        BOOST_TEST_REQUIRE(p.count() == n);
        held_.push_back({leaf, std::move(p), model_.charge(node(leaf), n, now())});
        settle();
    }
    void pause(std::int64_t nanoseconds) {
        paused_until_ = std::max(paused_until_, clock::now() + duration(nanoseconds));
        limiter_.pause_for(duration(nanoseconds));
        settle();
    }
    [[nodiscard]] bool is_paused() const { return clock::now() < paused_until_; }

    void pass(std::int64_t nanoseconds) {
        for (; nanoseconds != 0; --nanoseconds) {
            weir::testing::run_for(context_, 1ns);
            settle();
        }
    }
    // Both grant what can be granted now.
    void settle() {
        weir::testing::run_for(context_, 0ns);
        if (!is_paused()) {
            while (auto const g = model_.pop(now()))
                grant(g->asked.id, g->ticket);
        }
        for (auto const& [id, w] : waiting_)
            BOOST_TEST_REQUIRE(!w->is_over);
    }
    // The limiter must have granted the request at the same time.
    void grant(std::uint64_t id, weir::ticket t) {
        weir::testing::run_for(context_, 0ns);
        auto const w = std::move(waiting_.at(id));
        waiting_.erase(id);
        BOOST_TEST_REQUIRE(w->is_over);
        BOOST_TEST_REQUIRE(!w->error);
        BOOST_TEST_REQUIRE(w->granted.count() == w->count);
        BOOST_TEST_REQUIRE((w->granted.waited() == clock::now() - w->since));
        waited_ += clock::now() != w->since;
        held_.push_back({w->leaf, std::move(w->granted), t});
    }

    random_source& random_;
    support::rate_tree_oracle nodes_;
    support::rate_tree_requests model_;
    asio::io_context context_;
    limiter_type limiter_;
    std::vector<std::size_t> leaves_;
    std::map<std::size_t, std::optional<weir::policy::tree_node>> known_;
    std::map<std::uint64_t, std::unique_ptr<waiting>> waiting_;
    std::vector<held> held_;
    clock::time_point paused_until_{};
    std::uint64_t last_id_ = 0;
    std::uint64_t waited_ = 0;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(rate_tree_limiter_differential)

BOOST_AUTO_TEST_CASE(it_grants_as_the_turns_of_its_tree) {
    std::uint64_t waited = 0;
    support::for_each_seed(1, support::number_of_trees(), [&](random_source& random) {
        auto const options = support::rate_tree_maker(random).make();
        comparison c(random, options);
        c.play(200);
        waited += c.waited();
    });
    BOOST_TEST(waited > 0U);
}

BOOST_AUTO_TEST_SUITE_END()
