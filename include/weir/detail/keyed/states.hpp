#pragma once

#include <weir/detail/key_handle.hpp>
#include <weir/detail/paged_table.hpp>
#include <weir/detail/published.hpp>
#include <weir/detail/room/rule_view.hpp>
#include <weir/key_hash.hpp>
#include <weir/policy/rule.hpp>
#include <weir/time.hpp>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace weir::inline v0_2::detail {

/// A key to look up, of any type that compares with the keys, and its hash.
template <class Like>
struct keyed_lookup {
    std::conditional_t<small_key<Like>, Like, Like const&> key;
    std::uint64_t hash;
};

/// The data that the parts of one keyed limiter share.
template <class Hash>
struct keyed_bounds {
    keyed_bounds(Hash h, hash_seed const& s, std::size_t most,
                 std::size_t memory = std::numeric_limits<std::size_t>::max(),
                 duration evict = duration::zero())
        : hash_of(std::move(h)),
          seed(s),
          most_keys(most),
          most_bytes(memory),
          evict_within(evict) {}

    Hash hash_of;
    hash_seed seed;
    std::size_t most_keys;
    std::size_t most_bytes;
    duration evict_within;
    std::atomic<std::size_t> keys = 0;
    std::atomic<std::size_t> bytes = 0;      // of all tables, and the heap memory of all states
    std::atomic<std::uint64_t> cancels = 0;  // of all operations that wait in all parts
    std::atomic<std::uint64_t> evicted = 0;  // keys

    template <class Like>
    [[nodiscard]] std::uint64_t hash(Like const& key) const noexcept {
        return hash_of(seed, key);
    }
    [[nodiscard]] bool is_full() const noexcept {
        return keys.load(std::memory_order_relaxed) >= most_keys || is_out_of_memory();
    }
    [[nodiscard]] bool is_out_of_memory() const noexcept {
        return bytes.load(std::memory_order_relaxed) >= most_bytes;
    }
};

/// Converts the state `before` of the rule `old` to another rule. It works on a copy, so that nothing has changed if
/// memory runs out, in this or in another state.
template <limiting_rule Rule>
[[nodiscard]] typename Rule::state_type under(Rule const& rule, Rule const& old,
                                              typename Rule::state_type before, time_point now) {
    auto next = rule.begin(now);
    rule.take_over(next, old, before, now);
    return next;
}

/// A table of keys and their states. A key may have a `Line` instead, which then keeps its state.
///
/// A key that is not in the table has the state of an unused key, which began with the limiter. A key can be
/// forgotten when its state is equal to that state again; whenever a new key comes, a few keys are examined. If there is
/// no place, a key whose state will be equal soon can be evicted.
///
/// Each page has its own rule, so that the rule can be changed page by page.
template <class Key, class Hash, limiting_rule Rule, class Line>
class keyed_states {
public:
    using shared_rule = std::shared_ptr<Rule const>;
    using versioned_rule = typename published<shared_rule>::version;
    using state = typename Rule::state_type;
    using handle = key_handle<Key>;

private:
    // The state of a key, or, if the entry is marked, its line.
    class entry {
    public:
        entry(handle k, state&& s) noexcept : key(k), what_(std::move(s)) {}

        [[nodiscard]] state& own_state() noexcept { return what_.of_key; }
        [[nodiscard]] state const& own_state() const noexcept { return what_.of_key; }
        [[nodiscard]] Line& line() const noexcept { return *what_.line; }
        void put(state&& s) noexcept { what_.of_key = std::move(s); }
        void put(Line& l) noexcept { what_.line = &l; }

        handle key;

    private:
        union either {
            explicit either(state&& s) noexcept : of_key(std::move(s)) {}
            state of_key;
            Line* line;
        };
        struct both {
            explicit both(state&& s) noexcept : of_key(std::move(s)) {}
            state of_key;
            Line* line = nullptr;
        };
        std::conditional_t<std::is_trivially_copyable_v<state>, either, both> what_;
    };

    using table_type = paged_table<entry, shared_rule>;
    using page = typename table_type::page;

public:
    /// The place of a key in the table, valid until the next key is inserted.
    class spot : table_type::spot {
        using base = typename table_type::spot;

    public:
        spot() = default;

        using base::operator bool;
        [[nodiscard]] handle key() const noexcept { return this->entry().key; }
        [[nodiscard]] shared_rule const& shared() const noexcept { return this->in->header; }
        [[nodiscard]] Rule const& rule() const noexcept { return *shared(); }
        [[nodiscard]] state& own_state() const noexcept { return this->entry().own_state(); }

        /// The line that the key has instead of a state, or null.
        [[nodiscard]] Line* line() const noexcept {
            return this->is_marked() ? &this->entry().line() : nullptr;
        }
        void put(Line& l) const noexcept {
            this->entry().put(l);
            this->mark(true);
        }
        /// Replaces the line by a state.
        void put(state&& s) const noexcept {
            this->entry().put(std::move(s));
            this->mark(false);
        }

    private:
        friend keyed_states;
        explicit spot(base const& where) noexcept : base(where) {}
    };

    keyed_states(shared_rule rule, std::shared_ptr<keyed_bounds<Hash>> bounds)
        : bounds_(std::move(bounds)),
          heap_(bounds_->bytes),
          newest_{std::move(rule)},
          unused_(newest_.value->begin(time_point::min())),
          table_(newest_.value) {
        count_memory();
    }
    keyed_states(keyed_states const&) = delete;
    keyed_states& operator=(keyed_states const&) = delete;
    ~keyed_states() {
        table_.for_each_page([](page& p) {
            each(p.used(), [&](unsigned place) { p.at(place).key.release(); });
        });
    }

    void begin(time_point now) noexcept {
        if constexpr (std::is_trivially_copyable_v<state>)
            unused_ = newest_.value->begin(now);
        else
            newest_.value->restart(unused_, now);
    }

    [[nodiscard]] std::uint64_t hash_of(handle key) const noexcept {
        return key.hash([&](auto const& k) { return bounds_->hash(k); });
    }
    template <class Like>
    [[nodiscard]] spot find(keyed_lookup<Like> const& who) const noexcept {
        return spot(table_.find(who.hash, [&](entry const& e) { return e.key.key() == who.key; }));
    }
    [[nodiscard]] spot find(handle key) const noexcept {
        return spot(
            table_.find(hash_of(key), [&](entry const& e) { return e.key.word() == key.word(); }));
    }

    /// Inserts a key that is not in the table. Returns an empty spot if there is no space or no memory for it.
    template <class Like>
    [[nodiscard]] spot insert(Like const& key, std::uint64_t hash, time_point now) noexcept {
        forget_some(now);
        if (!claim_place() && !make_place(now))
            return {};
        std::optional<handle> made;
        try {
            made = handle::make(key, hash);
            auto const where =
                table_.make_room(hash, [&](entry const& e) { return hash_of(e.key); });
            if (where) {
                table_.insert(where, hash, entry(*made, state(unused(where.in->header))));
                heap_.add(where.entry().own_state());
                count_memory();
                return spot(where);
            }
        } catch (...) {}
        if (made)
            made->release();
        bounds_->keys.fetch_sub(1, std::memory_order_relaxed);
        return {};
    }

    /// The rule that a key with this hash has or would have, and the state of a key that is not in the table.
    [[nodiscard]] Rule const& rule_at(std::uint64_t hash) const noexcept {
        return *table_.page_of(hash).header;
    }
    [[nodiscard]] state const& unused_at(std::uint64_t hash) const noexcept {
        return unused(table_.page_of(hash).header);
    }

    /// Returns the newer one of `next` and the newest rule so far.
    [[nodiscard]] shared_rule const& newest_of(versioned_rule const& next) const noexcept {
        return next.number > newest_.number ? next.value : newest_.value;
    }

    /// Applies `newest_of(next)` to all keys of the page at `hash` that have a state here, and to keys that join the
    /// page later. Before that, calls `prepare(line)` for each line of the page, unless the page has this rule already.
    /// Returns the next page, or 0 after the last. Call it for each page, beginning with hash 0.
    ///
    /// Throws `std::bad_alloc`, and the exceptions of `prepare`; then nothing has changed.
    template <class Prepare>
    [[nodiscard]] std::uint64_t change_rule(versioned_rule const& next, std::uint64_t hash,
                                            time_point now, Prepare prepare) {
        // First the steps that may throw; they change nothing.
        page& p = table_.page_of(hash);
        auto const rule = newest_of(next);
        bool const is_first = rule != newest_.value;
        auto const changes = p.header == rule ? typename table_type::mask{} : p.used();
        std::vector<state> states;
        states.reserve(table_type::places + 1);
        if (is_first) {
            states.push_back(under(*rule, *newest_.value, unused_, now));
            earlier_.reserve(earlier_.size() + 1);
        }
        each(changes, [&](unsigned place) {
            if (p.is_marked(place))
                prepare(p.at(place).line());
            else
                states.push_back(under(*rule, *p.header, p.at(place).own_state(), now));
        });

        auto made = states.begin();
        if (is_first) {
            earlier_.push_back(
                {std::exchange(newest_, next).value, std::exchange(unused_, std::move(*made++))});
        }
        p.header = rule;
        each(changes, [&](unsigned place) {
            if (p.is_marked(place))
                return;
            [[maybe_unused]] heap_change<Rule> const noted(heap_, p.at(place).own_state());
            p.at(place).put(std::move(*made++));
        });
        auto const after = table_.after(hash);
        // All pages have `next` now, unless a newer rule came meanwhile.
        if (after == 0 && next.number == newest_.number)
            earlier_.clear();
        return after;
    }

    /// Calls `f(spot)` for each key of the page at `hash`. Returns the next page, or 0 after the last; begin with hash 0.
    template <class F>
    [[nodiscard]] std::uint64_t each_of_page(std::uint64_t hash, F f) const {
        page& p = table_.page_of(hash);
        each(p.used(), [&](unsigned place) { f(spot({&p, place})); });
        return table_.after(hash);
    }
    /// Calls `f(rule, state)` with the newest rule and the state of a key that is not in the table.
    template <class F>
    void change_unused(F f) {
        f(*newest_.value, unused_);
    }
    [[nodiscard]] state const& unused_under(shared_rule const& rule) const noexcept {
        return unused(rule);
    }
    [[nodiscard]] shared_rule const& newest() const noexcept { return newest_.value; }
    [[nodiscard]] state const& unused() const noexcept { return unused_; }

    [[nodiscard]] heap_sum<Rule> const& heap() const noexcept { return heap_; }
    [[nodiscard]] std::size_t size() const noexcept { return table_.size(); }

    /// Prefetches the memory of a key.
    void prefetch(std::uint64_t hash) const noexcept { table_.prefetch(hash); }
    void prefetch_entry(std::uint64_t hash) const noexcept { table_.prefetch_entry(hash); }

private:
    // The number of places that are searched for keys to forget, when a new key comes.
    static constexpr unsigned places_to_tidy = 8;

    template <class F>
    static void each(typename table_type::mask places, F f) {
        for (; places != 0; places &= places - 1)
            f(static_cast<unsigned>(std::countr_zero(places)));
    }

    [[nodiscard]] bool claim_place() noexcept {
        auto& keys = bounds_->keys;
        if (keys.fetch_add(1, std::memory_order_relaxed) < bounds_->most_keys &&
            (!bounds_->is_out_of_memory() || table_.size() < table_type::places))
            return true;
        keys.fetch_sub(1, std::memory_order_relaxed);
        return false;
    }
    [[nodiscard]] bool make_place(time_point now) noexcept {
        if (frees_place(now))
            return true;
        // The keys that have the least time to go make way first.
        for (auto const part : {64, 8, 1}) {
            auto const early = bounds_->evict_within / part;
            if (early == duration::zero())
                continue;
            auto const before = table_.size();
            bool const done = frees_place(now + early);
            bounds_->evicted.fetch_add(before - table_.size(), std::memory_order_relaxed);
            if (done)
                return true;
        }
        return false;
    }
    // Forgets keys that are like unused ones at that time, until there is a place. It examines two pages at most.
    [[nodiscard]] bool frees_place(time_point at) noexcept {
        for (auto more = 2 * table_type::places / places_to_tidy; more != 0; --more) {
            if (table_.size() == 0)
                return false;
            forget_some(at);
            if (claim_place())
                return true;
        }
        return false;
    }
    void forget_some(time_point now) noexcept {
        page& p = table_.page_of(hand_);
        for (auto const end = hand_place_ + places_to_tidy; hand_place_ != end; ++hand_place_) {
            bool const used = (p.used() >> hand_place_ & 1) != 0;
            if (!used || p.is_marked(hand_place_))
                continue;
            entry& e = p.at(hand_place_);
            if (!p.header->are_alike(std::as_const(e).own_state(), unused(p.header), now))
                continue;
            e.key.release();
            heap_.subtract(std::as_const(e).own_state());
            table_.erase({&p, hand_place_});
            bounds_->keys.fetch_sub(1, std::memory_order_relaxed);
        }
        if (hand_place_ < table_type::places)
            return;
        hand_place_ = 0;
        table_.tidy(hand_, [](page const& a, page const& b) { return a.header == b.header; });
        hand_ = table_.after(hand_);
        count_memory();
    }
    void count_memory() noexcept {
        auto const now = table_.bytes();
        if (now != counted_)
            bounds_->bytes.fetch_add(now - std::exchange(counted_, now), std::memory_order_relaxed);
    }

    // Returns the state of a key that is not in the table, on a page with this rule.
    [[nodiscard]] state const& unused(shared_rule const& rule) const noexcept {
        for (auto const& e : earlier_) {
            if (e.rule == rule)
                return e.unused;
        }
        return unused_;
    }

    std::shared_ptr<keyed_bounds<Hash>> bounds_;
    [[no_unique_address]] heap_sum<Rule> heap_;
    versioned_rule newest_;
    state unused_;
    struct earlier {
        shared_rule rule;
        state unused;
    };
    std::vector<earlier> earlier_;  // while pages of the table have such a rule
    std::uint64_t hand_ = 0;        // the hash at which the search for keys to forget continues
    unsigned hand_place_ = 0;
    table_type table_;
    std::size_t counted_ = 0;  // bytes of the table, as they are counted in the bounds
};

}  // namespace weir::inline v0_2::detail
