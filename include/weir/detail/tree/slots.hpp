#pragma once

#include <weir/amount.hpp>
#include <weir/detail/any_queue.hpp>
#include <weir/detail/keyed/line.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/room/line_schedule.hpp>
#include <weir/detail/room/watchers.hpp>
#include <weir/detail/shares_queue.hpp>
#include <weir/detail/tree/keys.hpp>
#include <weir/detail/tree/path.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/policy/policy.hpp>
#include <weir/policy/rate_tree.hpp>
#include <weir/policy/rate_tree_turns.hpp>
#include <weir/queue_options.hpp>
#include <weir/saved_numbers.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace weir::inline v0_2::detail {

/// The line of a leaf of a tree of rates, which exists while a request waits there.
struct tree_line : scheduled_line<any_queue> {
    tree_line(queue_options const& queueing, policy::tree_node n, std::uint64_t w)
        : scheduled_line<any_queue>(queueing), leaf(n), word(w) {}

    void erase(operation& op) noexcept {
        scheduled_line<any_queue>::erase(op);
        is_reported = false;
    }

    policy::tree_node leaf;
    std::uint64_t word;       // see `tree_keys`
    bool is_settled = true;   // false after permits were taken, until the event ends
    bool is_reported = true;  // false after a request left, until the turns know the first request
};

/// The slots of a limiter by a tree of rates, with the contract of `one_slot`: one for each leaf. Their states depend on
/// each other, and so does the order in which their lines are served: `rate_tree_turns` decides on it. `rest` states
/// the first request of each line to it.
class tree_slots : public line_schedule<tree_line> {
    using keys = tree_keys<tree_line>;
    using node = policy::tree_node;

public:
    static constexpr bool is_one = false;
    static constexpr bool has_turns = true;
    static constexpr bool is_fed = false;
    static constexpr bool ignores_leave = true;
    using options_type = rate_tree_options;
    using queue_type = any_queue;
    using line_type = tree_line;
    using watchers_type = no_watchers;

    /// A leaf, seen as a policy. A leaf that the options have no longer grants nothing.
    class leaf_policy {
    public:
        [[nodiscard]] amount capacity() const noexcept { return capacity_; }
        [[nodiscard]] amount remaining(time_point now) const noexcept {
            return at_ ? all_->turns_.remaining(*at_, now) : capacity_;
        }
        [[nodiscard]] amount debt(time_point now) const noexcept {
            return at_ ? all_->turns_.stats(*at_, now).debt : 0;
        }
        /// Known only for the first request of a line, since the requests of other leaves take permits meanwhile.
        [[nodiscard]] time_point ready_at(amount n, amount ahead, time_point now) const noexcept {
            if (!at_ || ahead != 0 || n > capacity_ || (line_ && !line_->is_settled))
                return unknown;
            if (line_ && !line_->is_reported)
                all_->report_first(*line_, now);
            return n == 0 ? now : all_->turns_.ready_at(*at_, n, now);
        }
        /// The time of the tree never goes back, so it is asked as of now.
        [[nodiscard]] time_point ready_from(amount n, amount ahead, time_point now,
                                            time_point) const noexcept {
            return ready_at(n, ahead, now);
        }
        ticket take(amount n, time_point now) const noexcept {
            if (line_)
                line_->is_settled = false;
            ++all_->progress_;
            return at_ ? all_->turns_.take(*at_, n, now) : ticket();
        }
        bool leave(amount, ticket, time_point) const noexcept { return false; }
        bool refund(amount n, ticket t, time_point now) const noexcept {
            return at_ && all_->turns_.refund(*at_, n, t, now);
        }
        /// A refund of permits that came from two lenders goes to the higher one, since both have given them.
        [[nodiscard]] ticket merge(ticket a, ticket b, amount) const noexcept {
            return std::max(a, b);
        }

    private:
        friend tree_slots;
        tree_slots* all_ = nullptr;
        std::optional<node> at_;  // if it is a leaf
        amount capacity_ = 0;
        line_type* line_ = nullptr;
    };
    using policy_type = leaf_policy;

    /// A leaf. A key that is not stored yet has its kind only.
    class slot {
    public:
        explicit operator bool() const noexcept { return policy_.at_.has_value(); }
        [[nodiscard]] leaf_policy policy() const noexcept { return policy_; }
        [[nodiscard]] line_type* line() const noexcept { return policy_.line_; }
        [[nodiscard]] std::uint64_t key() const noexcept { return word_; }

    private:
        friend tree_slots;
        leaf_policy policy_;
        std::uint64_t word_ = 0;
        bool may_be_stored_ = false;  // a key of a leaf that is not stored
    };

    tree_slots(options_type const& options, queue_options const&)
        : turns_(policy::rate_tree(options)), keys_(turns_) {}

    static void check(queue_options const& queueing) {
        if (queueing.order == queue_order::shares)
            throw std::invalid_argument(
                "weir::queue_options: trees of rates do not support the order shares");
    }
    static void check_change(queue_options const&, queue_options const&) noexcept {}
    static void begin(time_point) noexcept {}

    [[nodiscard]] static shares_queue* accounts() noexcept { return nullptr; }
    [[nodiscard]] static bool timed() noexcept { return true; }
    [[nodiscard]] static bool times_leave() noexcept { return false; }

    // Slots and lines.

    [[nodiscard]] slot find(tree_lookup const& who) const noexcept {
        auto const found = keys_.find(who.path);
        if (found.at)
            return slot_at(*found.at);
        slot s = nothing();
        bool const is_known = found.kind != policy::tree_kind::none;
        // Without a kind `has_place` rejects it.
        s.policy_.capacity_ = is_known ? kind(found.kind).capacity : max_amount;
        s.may_be_stored_ = is_known && kind(found.kind).is_leaf();
        return s;
    }
    [[nodiscard]] slot find(permit_origin from) const noexcept {
        auto const at = keys_.node_of(from.key);
        return at ? slot_at(*at) : nothing();
    }
    [[nodiscard]] slot slot_of(line_type& l) const noexcept {
        auto const at = keys_.node_of(l.word);
        auto s = at ? slot_at(*at) : nothing();
        s.policy_.line_ = &l;
        return s;
    }

    [[nodiscard]] bool has_place(slot& s, time_point now, tree_lookup const& who) noexcept {
        if (s.may_be_stored_) {
            if (auto const at = keys_.insert(who.path, now))
                s = slot_at(*at);
        }
        return static_cast<bool>(s);
    }
    /// The key of a permit stays stored, unless the options have it no longer.
    [[nodiscard]] static bool has_place(slot const& s, time_point, permit_origin) noexcept {
        return static_cast<bool>(s);
    }
    [[nodiscard]] line_type& open(slot& s, queue_options const& queueing, std::uint64_t event) {
        if (auto* const l = s.line())
            return *l;
        auto const at = *s.policy_.at_;
        auto made = std::make_unique<line_type>(queueing, at, s.word_);
        turns_.open(at);
        auto& l = *made.release();
        l.last_event = event;
        this->add(l);
        keys_.of(at).line = s.policy_.line_ = &l;
        return l;
    }
    template <class Next>
    void rest(line_type& l, time_point now, Next next) noexcept {
        bool const is_used = keys_.node_of(l.word).has_value();
        l.is_settled = true;
        if (is_used)
            report_first(l, now);
        if (!l.is_idle())
            return this->schedule(l, next(l));
        auto const at_end = this->remove(l);
        if (!is_used)
            return;
        turns_.close(l.leaf, now);
        keys_.of(l.leaf).line = nullptr;
    }

    // Lines in turn.

    /// Calls `f(line)` for each line whose first request can be granted, until the budget is spent.
    template <class F>
    void each_turn(time_point now, int& budget, F f) noexcept {
        for (std::optional<node> last; budget > 0; --budget) {
            auto const next = turns_.next(now);
            if (!next || (next == last && progress_ == 0))
                return;
            last = next;
            progress_ = 0;
            f(*keys_.of(*next).line);
        }
    }
    [[nodiscard]] time_point next_turn() const noexcept { return turns_.next_at(); }

    // Counts.

    void retain(std::uint64_t key) noexcept { count_permits(key, 1); }
    void release(std::uint64_t key) noexcept { count_permits(key, -1); }
    static void count(slot const&, bool, tree_lookup const&) noexcept {}
    static void count_rejection(line_type const&, error_code) noexcept {}

    // The tree.

    [[nodiscard]] policy::rate_tree const& tree() const noexcept { return turns_.tree(); }
    [[nodiscard]] std::size_t size() const noexcept { return keys_.size(); }
    [[nodiscard]] std::optional<rate_tree_stats> stats(tree_lookup const& who,
                                                       time_point now) noexcept {
        auto const at = keys_.find(who.path).at;
        return at ? std::optional(turns_.stats(*at, now)) : std::nullopt;
    }
    /// Changes the options. The caller must examine all requests again. Throws `std::invalid_argument` and
    /// `std::bad_alloc`, without an effect.
    void configure(options_type const& options, time_point now) {
        policy::tree_plan const next(options, &turns_.tree().plan());
        keys_.reserve(next);
        std::vector<node> to_open;
        this->visit_lines([&](line_type& l) {
            if (keys_.node_of(l.word))
                to_open.push_back(l.leaf);
        });
        turns_.configure(options, to_open, now);
        keys_.forget_removed();
        ++changes_;
    }
    /// Returns how often the options were changed.
    [[nodiscard]] std::uint64_t changes() const noexcept { return changes_; }

    // Saved states.

    /// How far the nodes were visited, children before their parents.
    struct progress {
        std::vector<std::uint32_t> kinds;
        std::size_t kind = 0;
        std::uint32_t number = 0;

        [[nodiscard]] bool is_done() const noexcept { return kind == kinds.size(); }
    };
    [[nodiscard]] progress begin_visit() const { return {keys_.kinds_upwards()}; }
    /// Calls `f(node)` for the next nodes, of which it examines at most 256. The options must not change meanwhile.
    template <class F>
    void visit_some(progress& p, F f) const {
        constexpr std::uint32_t at_a_time = 256;
        for (auto rest = at_a_time; rest != 0 && !p.is_done();) {
            auto const from = p.number;
            p.number = keys_.each_of(p.kinds[p.kind], from, rest, f);
            if (p.number == 0)
                ++p.kind;
            rest = p.number == 0 ? rest - 1 : 0;
        }
    }
    /// Calls `f(path, is_a_key, state)` for the nodes among them that are not like new. `state(writer)` appends the
    /// numbers of the state, counted back to `then`.
    template <class F>
    void save_some(progress& p, time_point then, time_point now, F f) const {
        visit_some(p, [&](node n) {
            if (tree().is_unused(n, now))
                return;
            f(keys_.path_of(n), keys_.is_a_key(n),
              [&](number_writer& to) { tree().save(n, to, then); });
        });
    }
    enum class loaded : std::uint8_t { yes, wrong, no_place };
    /// Reads the numbers of a used node that were counted back to `then`, and adds it if it is a new key.
    [[nodiscard]] loaded load(tree_lookup const& who, bool is_a_key, number_reader& from,
                              time_point then) noexcept {
        auto const found = keys_.find(who.path);
        if (found.kind == policy::tree_kind::none || kind(found.kind).is_a_key != is_a_key)
            return loaded::wrong;
        auto const at = keys_.insert(who.path, then);
        if (!at)
            return loaded::no_place;
        bool is_good = false;
        turns_.change_states([&](policy::rate_tree& tree) { is_good = tree.load(*at, from, then); },
                             then);
        return is_good ? loaded::yes : loaded::wrong;
    }
    /// How many keys of `before` have a state here, and how many have no place.
    struct resumed {
        std::uint64_t keys = 0;
        std::uint64_t dropped = 0;
    };
    /// Replaces the states of all nodes by the states in `before`, which has the same options. Throws `std::bad_alloc`,
    /// without an effect.
    [[nodiscard]] resumed resume(tree_slots const& before, time_point now) {
        resumed result;
        auto mine = begin_visit();
        auto its = before.begin_visit();
        turns_.change_states(
            [&](policy::rate_tree& tree) {
                while (!mine.is_done())
                    visit_some(mine, [&](node n) { tree.reset(n, now); });
                while (!its.is_done())
                    before.visit_some(its, [&](node n) {
                        if (before.tree().is_unused(n, now))
                            return;
                        auto const at = keys_.insert(before.keys_.path_of(n), now);
                        if (at)
                            tree.resume(*at, before.tree(), n, now);
                        if (before.keys_.is_a_key(n))
                            ++(at ? result.keys : result.dropped);
                    });
            },
            now);
        return result;
    }

private:
    [[nodiscard]] policy::tree_kind const& kind(std::uint32_t number) const noexcept {
        return turns_.tree().plan().kinds[number];
    }
    [[nodiscard]] slot nothing() const noexcept {
        slot s;
        s.policy_.all_ = const_cast<tree_slots*>(this);  // like a pointer
        return s;
    }
    [[nodiscard]] slot slot_at(node at) const noexcept {
        auto s = nothing();
        s.word_ = keys_.word_of(at);
        if (!turns_.tree().is_leaf(at))
            return s;
        s.policy_.at_ = at;
        s.policy_.capacity_ = kind(at.kind).capacity;
        s.policy_.line_ = const_cast<keys&>(keys_).of(at).line;
        return s;
    }
    // Only for a leaf that the options have.
    void report_first(line_type& l, time_point now) noexcept {
        auto const first = l.first(now);
        turns_.wait(l.leaf, first.count, first.held, now);
        progress_ += l.is_reported ? 0 : 1;
        l.is_reported = true;
    }
    void count_permits(std::uint64_t word, int more) noexcept {
        if (auto const at = keys_.node_of(word))
            keys_.of(*at).permits += static_cast<std::uint32_t>(more);
    }

    policy::rate_tree_turns turns_;
    keys keys_;
    int progress_ = 0;  // of `each_turn`: takes, and requests that have left
    std::uint64_t changes_ = 0;
};

}  // namespace weir::inline v0_2::detail
