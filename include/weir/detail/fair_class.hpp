#pragma once

#include <weir/amount.hpp>
#include <weir/detail/key_tree.hpp>
#include <weir/detail/list.hpp>
#include <weir/detail/operation.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace weir::inline v0_2::detail {

/// The permits of a request, divided by its weight, in units in which this is a whole number. As a tag it wraps around:
/// only the difference of two tags counts, and it is less than 2^98.
__extension__ using fair_tag = unsigned __int128;
// Without the alignment the members of `fair_group` leave no gap.
__extension__ using packed_fair_tag [[gnu::aligned(8)]] = unsigned __int128;

struct by_asked;

/// The waiting requests of one flow in one class. 104 bytes.
struct fair_group : key_tree_hook<fair_group>, list_hook<by_asked> {
    list<operation, in_group> line;
    packed_fair_tag tag = 0;  // of the first request
    std::uint64_t turn = 0;   // the number of its last grant, or of its arrival
    amount asked = 0;
    std::uint32_t at = 0;   // its position in the heap
    std::uint8_t size = 0;  // the index of its list in `fair_class`; 0: in none
};

/// The flows that wait in one class, and their turns. It owns the groups, not the operations.
///
/// Each flow has a tag: its start, plus the permits of its first request divided by its weight. The flow with the least
/// tag is next; of equals, the one that was granted permits, or began to wait, longest ago. After a grant the flow
/// starts at its tag, and the time of the class is the greatest start so far. A flow that begins to wait starts at that
/// time. So a flow without waiting requests is forgotten, and gains nothing by leaving.
///
/// Over any time in which two flows wait, their starts differ by at most the tag of a first request: at no time is the
/// start of a flow greater than the tag of another. Only a grant moves a start, so requests that leave have no effect.
///
/// Source: Golestani, "A self-clocked fair queueing scheme for broadband applications", INFOCOM 1994.
class fair_class {
public:
    fair_class() = default;
    fair_class(fair_class const&) = delete;
    fair_class& operator=(fair_class const&) = delete;
    ~fair_class() {
        for (auto* const one : turns_)
            delete one;
    }

    /// Reserves the memory for one more flow. May throw.
    void prepare() {
        if (turns_.size() == turns_.capacity())
            turns_.reserve(2 * turns_.size() + kept_places);
    }

    /// Appends `op` to its flow. Takes `spare` if the flow does not wait yet.
    void push(operation& op, std::unique_ptr<fair_group>& spare) noexcept {
        auto* own = groups_.find(op.flow);
        bool const begins = !own;
        if (begins) {
            own = spare.release();
            own->key = op.flow;
            groups_.insert(*own);
        }
        own->line.push_back(op);
        op.group = own;
        own->asked += op.count;
        if (begins)
            begin(*own, op);
        sort_in(*own);
    }

    /// Removes `op`. Returns its group if no request of the flow is left.
    [[nodiscard]] std::unique_ptr<fair_group> erase(operation& op) noexcept {
        auto& own = *op.group;
        op.flow = own.key;
        bool const is_first = &own.line.front() == &op;
        static_cast<list_hook<in_group>&>(op).unlink();
        own.asked -= op.count;
        if (is_first)
            heads_ -= op.count;
        if (own.line.empty()) {
            end(own);
            return std::unique_ptr<fair_group>(&own);
        }
        if (is_first) {
            own.tag -= cost(op, op.count);
            comes_first(own, own.line.front());
            sift_up(own.at);
            sift_down(own.at);
        }
        sort_in(own);
        return nullptr;
    }

    /// Records a grant of `n` permits to the first request of a group, which is erased next.
    void grant(operation const& op, amount n) noexcept {
        auto& own = *op.group;
        auto const start = own.tag - cost(op, op.count) + cost(op, n);
        if (is_less(time_, start))
            time_ = start;
        own.tag = start + cost(op, op.count);  // which `erase` subtracts
        own.turn = ++last_turn_;
    }

    [[nodiscard]] bool empty() const noexcept { return turns_.empty(); }
    /// The next request. Call it only while a request waits.
    [[nodiscard]] operation& next() const noexcept { return turns_.front()->line.front(); }

    /// Returns how many permits are certain to be granted before a newcomer of this class, if no request leaves: all
    /// that its flow asks for; or, if the flow does not wait, the first requests of flows with lesser or equal tags. It
    /// examines at most 64 of them, unless all are certain.
    [[nodiscard]] amount ahead_of_new(request const& r) const noexcept {
        if (auto const* const own = groups_.find(r.flow()))
            return own->asked;
        auto const more = cost(r, r.count());
        if (more >= largest_)
            return heads_;
        amount sum = 0;
        int budget = 64;
        add_heads(0, time_ + more, budget, sum);
        return sum;
    }

    /// Returns the group whose flow asks for the most permits, divided by the weight of its oldest request, to within a
    /// factor of 2. Call it only while a request waits.
    [[nodiscard]] fair_group& largest() const noexcept {
        return by_size_[static_cast<std::size_t>(std::bit_width(used_sizes_)) - 1].front();
    }

private:
    static constexpr std::size_t kept_places = 16;
    static constexpr std::size_t sizes = 64;

    template <class Request>
    [[nodiscard]] static fair_tag cost(Request const& of, amount n) noexcept {
        auto const one = all_weights / static_cast<unsigned>(of.weight());
        return fair_tag{one} * static_cast<std::uint64_t>(n);
    }
    [[nodiscard]] static bool is_less(fair_tag a, fair_tag b) noexcept {
        __extension__ using difference = __int128;
        return static_cast<difference>(a - b) < 0;
    }
    [[nodiscard]] static bool goes_before(fair_group const& a, fair_group const& b) noexcept {
        return a.tag != b.tag ? is_less(a.tag, b.tag) : a.turn < b.turn;
    }

    void begin(fair_group& own, operation const& first) noexcept {
        own.tag = time_;
        own.turn = ++last_turn_;
        comes_first(own, first);
        turns_.push_back(&own);
        own.at = static_cast<std::uint32_t>(turns_.size() - 1);
        sift_up(own.at);
    }
    // Adds the first request to the tag of its group, which has been the start until now.
    void comes_first(fair_group& own, operation const& first) noexcept {
        auto const more = cost(first, first.count);
        own.tag += more;
        heads_ += first.count;
        largest_ = std::max(largest_, more);
    }
    void end(fair_group& own) noexcept {
        sort_in(own);
        groups_.erase(own);
        auto* const last = turns_.back();
        turns_.pop_back();
        if (last != &own) {
            put(last, own.at);
            sift_up(last->at);
            sift_down(last->at);
        }
        if (!turns_.empty())
            return;
        largest_ = 0;
        if (turns_.capacity() > kept_places)
            std::vector<fair_group*>().swap(turns_);
    }

    // The heap.

    void put(fair_group* one, std::size_t place) noexcept {
        turns_[place] = one;
        one->at = static_cast<std::uint32_t>(place);
    }
    void sift_up(std::size_t place) noexcept {
        auto* const one = turns_[place];
        while (place != 0 && goes_before(*one, *turns_[(place - 1) / 2])) {
            put(turns_[(place - 1) / 2], place);
            place = (place - 1) / 2;
        }
        put(one, place);
    }
    void sift_down(std::size_t place) noexcept {
        auto* const one = turns_[place];
        for (;;) {
            auto below = 2 * place + 1;
            if (below + 1 < turns_.size() && goes_before(*turns_[below + 1], *turns_[below]))
                ++below;
            if (below >= turns_.size() || !goes_before(*turns_[below], *one))
                break;
            put(turns_[below], place);
            place = below;
        }
        put(one, place);
    }
    void add_heads(std::size_t place, fair_tag before, int& budget, amount& sum) const noexcept {
        if (place >= turns_.size() || is_less(before, turns_[place]->tag) || budget == 0)
            return;
        --budget;
        sum += turns_[place]->line.front().count;
        add_heads(2 * place + 1, before, budget, sum);
        add_heads(2 * place + 2, before, budget, sum);
    }

    // The lists of the flows that ask for a number of permits, by the power of 2.

    void sort_in(fair_group& own) noexcept {
        auto const size = own.line.empty() ? 0 : size_of(own);
        if (size == own.size)
            return;
        if (own.size != 0) {
            static_cast<list_hook<by_asked>&>(own).unlink();
            note(own.size);
        }
        own.size = static_cast<std::uint8_t>(size);
        if (size != 0) {
            by_size_[size].push_back(own);
            note(size);
        }
    }
    // At least 1, since a permit costs at least 2^42.
    [[nodiscard]] static std::size_t size_of(fair_group const& own) noexcept {
        auto const size = cost(own.line.front(), own.asked) >> 42;
        return size >> (sizes - 1) != 0
                   ? sizes - 1
                   : static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(size)));
    }
    void note(std::size_t size) noexcept {
        auto const bit = std::uint64_t{1} << size;
        used_sizes_ = by_size_[size].empty() ? used_sizes_ & ~bit : used_sizes_ | bit;
    }

    key_tree<fair_group> groups_;
    std::vector<fair_group*> turns_;  // a binary heap: the first is next
    fair_tag time_ = 0;
    std::uint64_t last_turn_ = 0;
    amount heads_ = 0;      // the sum of the first requests
    fair_tag largest_ = 0;  // at least the cost of each first request
    std::array<list<fair_group, by_asked>, sizes> by_size_;
    std::uint64_t used_sizes_ = 0;  // the bits of the lists that are not empty
};

}  // namespace weir::inline v0_2::detail
