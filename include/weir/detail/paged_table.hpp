#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace weir::inline v0_2::detail {

/// A hash table in pages, for many small entries that are inserted and erased often.
///
/// A page has 32 places. Its first cache line holds all data that a search needs, including one byte of each hash, by
/// which the page is searched. An entry can be at any place. It is at its home, the place that its hash selects, or
/// near to it, if such a place is free. So both cache lines can be fetched at a time, before the place of the entry
/// is known. A full page is split in two; two nearly empty pages are joined. The directory finds each page by the
/// first bits of the hash, and doubles when a page needs one bit more. So no call moves more than 32 entries, and the
/// directory, of 8 bytes for some 20 entries, is copied occasionally.
/// Memory: the entry and 2 bytes, in pages that are 69 % full on average.
///
/// An entry also has a mark, which the table only stores. `Hash` returns the hash of an entry. The caller decides
/// which entries are equal: `find` takes a predicate.
///
/// Source: Fagin, Nievergelt, Pippenger and Strong, "Extendible Hashing" (1979).
template <class Entry, class Header>
class paged_table {
public:
    static constexpr unsigned places = 32;

    /// A set of places of a page: bit i is place i.
    using mask = std::uint32_t;

    class page {
    public:
        page(unsigned depth, Header const& of_all) noexcept : depth_(depth), header(of_all) {}
        page(page const&) = delete;
        page& operator=(page const&) = delete;
        ~page() {
            for (auto rest = used(); rest != 0; rest &= rest - 1)
                std::destroy_at(&at(first(rest)));
        }

        [[nodiscard]] Entry& at(unsigned place) noexcept {
            return *std::launder(reinterpret_cast<Entry*>(memory_ + place * sizeof(Entry)));
        }
        [[nodiscard]] mask used() const noexcept { return ~matches(no_tag); }
        [[nodiscard]] unsigned size() const noexcept {
            return static_cast<unsigned>(std::popcount(used()));
        }

        [[nodiscard]] bool is_marked(unsigned place) const noexcept {
            return (marked_ >> place & 1) != 0;
        }
        void mark(unsigned place, bool yes) noexcept {
            marked_ = (marked_ & ~(mask{1} << place)) | (mask{yes} << place);
        }

    private:
        friend paged_table;

        // Compares eight bytes at a time: bit i is byte i.
        [[nodiscard]] mask matches(std::uint8_t tag) const noexcept {
            constexpr std::uint64_t low = 0x0101010101010101;
            constexpr std::uint64_t rest = 0x7f7f7f7f7f7f7f7f;
            mask found = 0;
            for (unsigned i = 0; i != places / 8; ++i) {
                std::uint64_t eight = 0;
                std::memcpy(&eight, tags_.data() + 8 * i, 8);
                if constexpr (std::endian::native == std::endian::big)
                    eight = __builtin_bswap64(eight);
                auto const differs = eight ^ (low * tag);
                // The top bit of each byte that is 0, without a carry between bytes.
                auto const zero = ~(((differs & rest) + rest) | differs | rest);
                found |= static_cast<mask>((zero >> 7) * 0x0102040810204080 >> 56) << (8 * i);
            }
            return found;
        }

        void put(unsigned place, std::uint8_t tag, bool marked, Entry&& entry) noexcept {
            std::construct_at(reinterpret_cast<Entry*>(memory_ + place * sizeof(Entry)),
                              std::move(entry));
            tags_[place] = tag;
            mark(place, marked);
        }
        void clear(unsigned place) noexcept {
            std::destroy_at(&at(place));
            tags_[place] = no_tag;
            mark(place, false);
        }
        void move_to(page& other, unsigned its_place, unsigned place) noexcept {
            other.put(its_place, tags_[place], is_marked(place), std::move(at(place)));
            clear(place);
        }
        // Returns the first free place from `place` on, cyclically. One must be free.
        [[nodiscard]] unsigned free_from(unsigned place) const noexcept {
            auto const free = std::rotr(~used(), static_cast<int>(place));
            return (place + first(free)) % places;
        }

        alignas(64) std::array<std::uint8_t, places> tags_{};
        mask marked_ = 0;
        unsigned depth_;  // the number of hash bits that its entries share

    public:
        /// The data common to the entries of this page.
        Header header;

    private:
        alignas(Entry) std::byte memory_[places * sizeof(Entry)];
    };

    /// The place of an entry, valid until an entry is inserted or a page is tidied.
    struct spot {
        page* in = nullptr;
        unsigned place = 0;

        explicit operator bool() const noexcept { return in != nullptr; }
        [[nodiscard]] Entry& entry() const noexcept { return in->at(place); }
        [[nodiscard]] bool is_marked() const noexcept { return in->is_marked(place); }
        void mark(bool yes) const noexcept { in->mark(place, yes); }
    };

    explicit paged_table(Header const& header) : directory_(1) {
        directory_[0] = new page(0, header);
    }
    paged_table(paged_table const&) = delete;
    paged_table& operator=(paged_table const&) = delete;
    ~paged_table() {
        for_each_page([](page& p) { delete &p; });
    }

    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] std::size_t pages() const noexcept { return pages_; }
    [[nodiscard]] std::size_t bytes() const noexcept {
        return pages_ * sizeof(page) + directory_.capacity() * sizeof(page*);
    }

    /// Returns the entry with this hash that fulfils `is_it`, if there is one.
    template <class Predicate>
    [[nodiscard]] spot find(std::uint64_t hash, Predicate is_it) const noexcept {
        page& p = page_of(hash);
        for (auto found = p.matches(tag_of(hash)); found != 0; found &= found - 1) {
            if (is_it(std::as_const(p.at(first(found)))))
                return {&p, first(found)};
        }
        return {};
    }

    /// Returns the place for a new entry with this hash, in a page that has space. Throws `std::bad_alloc`. Returns
    /// an empty spot if more entries have the same hash than a page can hold.
    template <class Hash>
    [[nodiscard]] spot make_room(std::uint64_t hash, Hash hash_of) {
        for (;;) {
            page& p = page_of(hash);
            if (~p.used() != 0)
                return {&p, p.free_from(home_of(hash))};
            if (p.depth_ >= most_depth())
                return {};
            split(p, hash, hash_of);
        }
    }
    /// Inserts the entry at `where`, without its mark.
    void insert(spot where, std::uint64_t hash, Entry&& entry) noexcept {
        where.in->put(where.place, tag_of(hash), false, std::move(entry));
        ++size_;
    }
    void erase(spot where) noexcept {
        where.in->clear(where.place);
        --size_;
    }

    /// Prefetches the memory of an entry with this hash, if the entry is at its home.
    void prefetch(std::uint64_t hash) const noexcept {
        page& p = page_of(hash);
        // Without this, the compiler removes the call: it treats a function that only prefetches as one without
        // effect.
        asm volatile("" : : "r"(&p));
        __builtin_prefetch(&p, 1);
        __builtin_prefetch(&p.memory_[home_of(hash) * sizeof(Entry)], 1);
    }

    /// Prefetches the entry at any place, after the memory of `prefetch` has arrived.
    void prefetch_entry(std::uint64_t hash) const noexcept {
        page& p = page_of(hash);
        asm volatile("" : : "r"(&p));
        for (auto found = p.matches(tag_of(hash)); found != 0; found &= found - 1)
            __builtin_prefetch(&p.at(first(found)), 1);
    }

    /// Calls `f(page)` for each page.
    template <class F>
    void for_each_page(F f) const {
        for (std::size_t i = 0; i < directory_.size();) {
            page* const p = directory_[i];
            i += span(*p);
            f(*p);
        }
    }

    /// Returns the page of this hash.
    [[nodiscard]] page& page_of(std::uint64_t hash) const noexcept {
        return *directory_[index_of(hash)];
    }
    /// Returns the first hash of the page behind the page of this hash, or 0 after the last page. A visit of all pages
    /// begins at hash 0, and ends when it is at 0 again; pages may be split or joined meanwhile.
    [[nodiscard]] std::uint64_t after(std::uint64_t hash) const noexcept {
        auto const shared = page_of(hash).depth_;
        return shared == 0 ? 0 : ((hash >> (64 - shared)) + 1) << (64 - shared);
    }

    /// Joins the page of this hash with its other half if both are nearly empty and `may_join(a, b)` allows it.
    template <class Predicate>
    void tidy(std::uint64_t hash, Predicate may_join) noexcept {
        page& p = page_of(hash);
        if (p.depth_ == 0)
            return;
        page& other = page_of(hash ^ (std::uint64_t{1} << (64 - p.depth_)));
        if (other.depth_ != p.depth_ || p.size() + other.size() > places / 2 || !may_join(p, other))
            return;
        for (auto rest = other.used(); rest != 0; rest &= rest - 1)
            other.move_to(p, p.free_from(first(rest)), first(rest));
        --p.depth_;
        auto const begin = index_of(hash) & ~(span(p) - 1);
        for (std::size_t i = 0; i != span(p); ++i)
            directory_[begin + i] = &p;
        --pages_;
        delete &other;
    }

private:
    static constexpr std::uint8_t no_tag = 0;
    // If the hashes of a page share more bits than this, for so few pages, the hash function is bad: a directory that
    // separates them would only take memory.
    [[nodiscard]] unsigned most_depth() const noexcept {
        return std::min(28U, static_cast<unsigned>(std::bit_width(pages_)) + 6);
    }

    [[nodiscard]] static unsigned first(mask m) noexcept {
        return static_cast<unsigned>(std::countr_zero(m));
    }
    [[nodiscard]] static std::uint8_t tag_of(std::uint64_t hash) noexcept {
        auto const tag = static_cast<std::uint8_t>(hash);
        return tag == no_tag ? 1 : tag;
    }
    // Uses bits that select neither the page nor the tag, and that did not select the table.
    [[nodiscard]] static unsigned home_of(std::uint64_t hash) noexcept {
        return static_cast<unsigned>(hash >> 24) % places;
    }
    [[nodiscard]] std::size_t index_of(std::uint64_t hash) const noexcept {
        return depth_ == 0 ? 0 : static_cast<std::size_t>(hash >> (64 - depth_));
    }
    // The number of directory entries of a page.
    [[nodiscard]] std::size_t span(page const& p) const noexcept {
        return std::size_t{1} << (depth_ - p.depth_);
    }

    template <class Hash>
    void split(page& p, std::uint64_t hash, Hash hash_of) {
        auto other = std::make_unique<page>(p.depth_ + 1, p.header);
        if (p.depth_ == depth_)
            double_directory();
        auto const half = span(p) / 2;
        auto const begin = (index_of(hash) & ~(span(p) - 1)) + half;
        ++p.depth_;
        std::array<unsigned, places> home{};
        for (unsigned place = 0; place != places; ++place) {
            auto const its_hash = hash_of(std::as_const(p.at(place)));
            home[place] = home_of(its_hash);
            if ((its_hash >> (64 - p.depth_) & 1) != 0)
                p.move_to(*other, other->free_from(home[place]), place);
        }
        for (auto rest = p.used(); rest != 0; rest &= rest - 1) {
            auto const place = first(rest);
            if ((p.used() >> home[place] & 1) == 0)
                p.move_to(p, home[place], place);
        }
        for (std::size_t i = 0; i != half; ++i)
            directory_[begin + i] = other.get();
        ++pages_;
        static_cast<void>(other.release());
    }

    void double_directory() {
        std::vector<page*> twice(directory_.size() * 2);
        for (std::size_t i = 0; i != twice.size(); ++i)
            twice[i] = directory_[i / 2];
        directory_.swap(twice);
        ++depth_;
    }

    std::vector<page*> directory_;
    unsigned depth_ = 0;  // the number of hash bits of its index
    std::size_t size_ = 0;
    std::size_t pages_ = 1;
};

}  // namespace weir::inline v0_2::detail
