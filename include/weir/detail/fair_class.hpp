#pragma once

#include <weir/amount.hpp>
#include <weir/detail/chain/line.hpp>
#include <weir/detail/chain/operation.hpp>
#include <weir/detail/key_tree.hpp>
#include <weir/detail/list.hpp>
#include <weir/detail/operation.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
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
    list<operation, in_group> line;  // without its chains, which the class keeps
    packed_fair_tag tag = 0;         // of the first request
    std::uint64_t turn = 0;          // the number of its last grant, or of its arrival
    amount asked = 0;
    std::uint32_t at = 0;   // its position in the heap
    std::uint8_t size = 0;  // the index of its list in `fair_class`; 0: in none
    bool has_chains = false;
};

/// Groups that no flow uses. Each chain that may join later has one here, or is in a flow of chains alone.
class spare_groups {
public:
    spare_groups() = default;
    spare_groups(spare_groups const&) = delete;
    spare_groups& operator=(spare_groups const&) = delete;
    ~spare_groups() { keep(0); }

    /// Reserves the memory for one more flow, beside the flows of the chains. May throw.
    void prepare() {
        while (size_ <= chains_)
            put(std::make_unique<fair_group>());
    }
    void add_chain() noexcept { ++chains_; }
    void remove_chain() noexcept {
        --chains_;
        keep(chains_ + 1);
    }

    [[nodiscard]] std::unique_ptr<fair_group> take() noexcept {
        --size_;
        return std::unique_ptr<fair_group>(&all_.pop_front());
    }
    void put_back(std::unique_ptr<fair_group> group) noexcept {
        if (group)
            put(std::move(group));
        keep(chains_ + 1);
    }

private:
    void put(std::unique_ptr<fair_group> group) noexcept {
        all_.push_back(*group.release());
        ++size_;
    }
    void keep(std::size_t most) noexcept {
        while (size_ > most)
            static_cast<void>(take());
    }

    list<fair_group, by_asked> all_;
    std::size_t size_ = 0;
    std::size_t chains_ = 0;
};

/// The flows that wait in one class, and their turns. It owns the groups, not the requests. A chain is a request of its
/// flow, in the position of its arrival.
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
        for (auto* const one : heap_)
            delete one;
    }

    /// Reserves the memory for one more flow, beside the flows of the chains. May throw.
    void prepare() {
        auto const needed = heap_.size() + chains_to_come_ + 1;
        if (needed > heap_.capacity())
            heap_.reserve(heap_.size() + std::max(needed, kept_places));
    }
    void add_chain() noexcept { ++chains_to_come_; }
    void remove_chain() noexcept {
        --chains_to_come_;
        release_memory();
    }

    /// Adds `one` to its flow. Takes a group from `spare` if the flow does not wait yet.
    void push(queued_request& one, spare_groups& spare) noexcept {
        auto* own = groups_.find(one.flow);
        queued_request* const before = own ? &first(*own) : nullptr;
        if (!own) {
            own = spare.take().release();
            own->key = one.flow;
            groups_.insert(*own);
        }
        link(*own, one);
        one.group = own;
        own->asked += one.count;
        if (!before) {
            begin(*own, one);
        } else if (one.number < before->number) {  // a chain that arrived first and comes back
            heads_ -= before->count;
            follow(*own, *before, one);
        }
        sort_in(*own);
    }

    /// Removes `one`. Returns its group if no request of the flow is left.
    [[nodiscard]] std::unique_ptr<fair_group> erase(queued_request& one) noexcept {
        auto& own = *one.group;
        bool const was_first = &one == &first(own);
        unlink(own, one);
        own.asked -= one.count;
        if (was_first)
            heads_ -= one.count;
        if (own.line.empty() && !own.has_chains) {
            end(own);
            return std::unique_ptr<fair_group>(&own);
        }
        if (was_first)
            follow(own, one, first(own));
        sort_in(own);
        return nullptr;
    }

    /// Records a grant of `n` permits to a request, which is erased next. It is the first of its flow, except for a
    /// chain that reserves its limiters.
    void grant(queued_request const& one, amount n) noexcept {
        auto& own = *one.group;
        auto const& head = first(own);
        auto const start = own.tag - cost(head, head.count) + cost(one, n);
        if (is_less(time_, start))
            time_ = start;
        own.tag = start + cost(head, head.count);  // which `erase` subtracts
        own.turn = ++last_turn_;
        if (&head != &one)
            sift_down(own.at);
    }

    [[nodiscard]] bool empty() const noexcept { return heap_.empty(); }
    /// The next request. Call it only while a request waits.
    [[nodiscard]] queued_request& next() const noexcept { return first(*heap_.front()); }
    /// Returns whether a chain that is not here would be the next request of this class if it were.
    [[nodiscard]] bool would_be_next(chain_entry const& e) const noexcept {
        auto const* const own = groups_.find(e.how.flow);
        auto tag = time_ + cost(e, e.count);
        if (own) {
            auto const& head = first(*own);
            if (head.number < e.number)
                return false;
            tag = own->tag - cost(head, head.count) + cost(e, e.count);
        }
        auto const turn = own ? own->turn : last_turn_ + 1;
        // The least of the other flows is at the top of the heap, or right below its own flow.
        auto const is_first = [&](std::size_t place) {
            if (place >= heap_.size())
                return true;
            auto const& other = *heap_[place];
            return tag != other.tag ? is_less(tag, other.tag) : turn < other.turn;
        };
        return own && own->at == 0 ? is_first(1) && is_first(2) : is_first(0);
    }

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
    /// factor of 2; chains count, but a flow of chains alone is left out. Returns null if there is none.
    [[nodiscard]] fair_group* largest() const noexcept {
        auto const size = static_cast<std::size_t>(std::bit_width(used_sizes_));
        return size == 0 ? nullptr : &by_size_[size - 1].front();
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

    // The requests of a group.

    [[nodiscard]] queued_request& first(fair_group const& own) const noexcept {
        if (!own.has_chains) [[likely]]
            return own.line.front();
        auto& chain = *chains_.first(own.key);
        if (own.line.empty() || chain.number < own.line.front().number)
            return chain;
        return own.line.front();
    }
    void link(fair_group& own, queued_request& one) noexcept {
        if (!one.is_chain())
            return own.line.push_back(static_cast<operation&>(one));
        chains_.insert(static_cast<chain_entry&>(one), own.key);
        own.has_chains = true;
    }
    void unlink(fair_group& own, queued_request& one) noexcept {
        one.flow = own.key;
        if (!one.is_chain())
            return static_cast<list_hook<in_group>&>(static_cast<operation&>(one)).unlink();
        chains_.erase(static_cast<chain_entry&>(one));
        own.has_chains = chains_.first(own.key) != nullptr;
    }

    void begin(fair_group& own, queued_request const& first) noexcept {
        own.tag = time_;
        own.turn = ++last_turn_;
        comes_first(own, first);
        heap_.push_back(&own);
        own.at = static_cast<std::uint32_t>(heap_.size() - 1);
        sift_up(own.at);
    }
    // Adds the first request to the tag of its group, which has been the start until now.
    void comes_first(fair_group& own, queued_request const& first) noexcept {
        auto const more = cost(first, first.count);
        own.tag += more;
        heads_ += first.count;
        largest_ = std::max(largest_, more);
    }
    // Replaces the first request in the tag.
    void follow(fair_group& own, queued_request const& before,
                queued_request const& next) noexcept {
        own.tag -= cost(before, before.count);
        comes_first(own, next);
        sift_up(own.at);
        sift_down(own.at);
    }
    void end(fair_group& own) noexcept {
        sort_in(own);
        groups_.erase(own);
        auto* const last = heap_.back();
        heap_.pop_back();
        if (last != &own) {
            put(last, own.at);
            sift_up(last->at);
            sift_down(last->at);
        }
        if (heap_.empty())
            largest_ = 0;
        release_memory();
    }
    void release_memory() noexcept {
        if (heap_.empty() && chains_to_come_ == 0 && heap_.capacity() > kept_places)
            std::vector<fair_group*>().swap(heap_);
    }

    // The heap.

    void put(fair_group* one, std::size_t place) noexcept {
        heap_[place] = one;
        one->at = static_cast<std::uint32_t>(place);
    }
    void sift_up(std::size_t place) noexcept {
        auto* const one = heap_[place];
        while (place != 0 && goes_before(*one, *heap_[(place - 1) / 2])) {
            put(heap_[(place - 1) / 2], place);
            place = (place - 1) / 2;
        }
        put(one, place);
    }
    void sift_down(std::size_t place) noexcept {
        auto* const one = heap_[place];
        for (;;) {
            auto below = 2 * place + 1;
            if (below + 1 < heap_.size() && goes_before(*heap_[below + 1], *heap_[below]))
                ++below;
            if (below >= heap_.size() || !goes_before(*heap_[below], *one))
                break;
            put(heap_[below], place);
            place = below;
        }
        put(one, place);
    }
    void add_heads(std::size_t place, fair_tag before, int& budget, amount& sum) const noexcept {
        if (place >= heap_.size() || is_less(before, heap_[place]->tag) || budget == 0)
            return;
        --budget;
        sum += first(*heap_[place]).count;
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
    chain_groups chains_;             // by flow
    std::size_t chains_to_come_ = 0;  // the chains that may join at any time
    std::vector<fair_group*> heap_;   // a binary heap: the first is next
    fair_tag time_ = 0;
    std::uint64_t last_turn_ = 0;
    amount heads_ = 0;      // the sum of the first requests
    fair_tag largest_ = 0;  // at least the cost of each first request
    std::array<list<fair_group, by_asked>, sizes> by_size_;
    std::uint64_t used_sizes_ = 0;  // the bits of the lists that are not empty
};

}  // namespace weir::inline v0_2::detail
