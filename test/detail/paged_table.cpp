#include <weir/detail/paged_table.hpp>

#include "support/random.hpp"

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

using support::random_source;

BOOST_AUTO_TEST_SUITE(detail_paged_table)

namespace {

// An entry that owns memory, so that a sanitizer checks that each is destroyed once.
struct entry {
    entry(std::uint64_t k, int v) : key(k), value(std::make_unique<int>(v)) {}
    std::uint64_t key;
    std::unique_ptr<int> value;
};
using table = weir::detail::paged_table<entry, int>;

void expect(bool condition, std::string_view what) {
    if (!condition) [[unlikely]]
        BOOST_FAIL(what);
}

// Hashes of which many share their first bits, and the byte by which a page is searched.
std::uint64_t uneven(std::uint64_t key) {
    return key % 4 == 0 ? key << 56 | key : key * 0x9e3779b97f4a7c15;
}
std::uint64_t hash_of(entry const& e) {
    return uneven(e.key);
}

struct known {
    int value = 0;
    bool marked = false;
};

class comparison {
public:
    explicit comparison(random_source& random) : random_(random), table_(7) {}

    void run() {
        auto const keys = random_.one_of<std::int64_t>({20, 200, 5'000});
        for (int i = 0; i != 5'000; ++i) {
            auto const key = static_cast<std::uint64_t>(random_.between(0, keys - 1));
            bool const grows = i < 3'000;
            if (random_.one_in(grows ? 4 : 2))
                erase(key);
            else if (grows || random_.one_in(8))
                insert(key, i);
            else
                find(key);
            if (random_.one_in(4))
                table_.tidy(random_.bits(), [](auto const&, auto const&) { return true; });
        }
        walk();
        for (auto const& [key, k] : std::unordered_map(known_))
            erase(key);
        for (int i = 0; i != 20'000 && table_.pages() != 1; ++i)
            table_.tidy(random_.bits(), [](auto const&, auto const&) { return true; });
        expect(table_.size() == 0 && table_.pages() == 1, "an empty table has one page again");
    }

private:
    table::spot at(std::uint64_t key) {
        return table_.find(uneven(key), [&](entry const& e) { return e.key == key; });
    }
    void find(std::uint64_t key) {
        auto const spot = at(key);
        auto const k = known_.find(key);
        expect(static_cast<bool>(spot) == (k != known_.end()), "found iff it is there");
        if (!spot)
            return;
        expect(*spot.entry().value == k->second.value, "the inserted value");
        expect(spot.is_marked() == k->second.marked, "the mark stays");
        if (random_.one_in(4))
            spot.mark(k->second.marked = !k->second.marked);
    }
    void insert(std::uint64_t key, int value) {
        find(key);
        if (known_.contains(key))
            return;
        auto const spot = table_.make_room(uneven(key), hash_of);
        expect(static_cast<bool>(spot), "there is room");
        table_.insert(spot, uneven(key), entry(key, value));
        known_[key] = {value, false};
        expect(table_.size() == known_.size(), "the size");
    }
    void erase(std::uint64_t key) {
        find(key);
        if (auto const spot = at(key)) {
            table_.erase(spot);
            known_.erase(key);
        }
    }
    // Even while pages are split and joined, the walk visits all entries that stay.
    void walk() {
        std::set<std::uint64_t> seen;
        std::uint64_t hash = 0;
        std::size_t pages = 0;
        do {
            auto& page = table_.page_of(hash);
            expect(page.header == 7, "the header");
            for (auto rest = page.used(); rest != 0; rest &= rest - 1)
                seen.insert(page.at(static_cast<unsigned>(std::countr_zero(rest))).key);
            hash = table_.after(hash);
            ++pages;
        } while (hash != 0);
        expect(pages == table_.pages(), "each page once");
        expect(seen.size() == known_.size(), "each entry");
        std::size_t in_pages = 0;
        table_.for_each_page([&](auto const& page) { in_pages += page.size(); });
        expect(in_pages == known_.size(), "each entry once");
    }

    random_source& random_;
    table table_;
    std::unordered_map<std::uint64_t, known> known_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(behaves_like_a_map) {
    support::for_each_seed(1, 60, [](random_source& random) { comparison(random).run(); });
}

BOOST_AUTO_TEST_CASE(finds_no_space_for_more_equal_hashes_than_a_page_has_places) {
    table same(0);
    auto const hash_is_5 = [](entry const&) { return std::uint64_t{5}; };
    for (std::uint64_t key = 0; key != table::places; ++key)
        same.insert(same.make_room(5, hash_is_5), 5, entry(key, 0));
    BOOST_TEST(!same.make_room(5, hash_is_5));
    BOOST_TEST(same.pages() < 16u);  // and the attempt takes no memory
    BOOST_TEST(same.size() == table::places);
    for (std::uint64_t key = 0; key != table::places; ++key)
        BOOST_TEST(static_cast<bool>(same.find(5, [&](entry const& e) { return e.key == key; })));
}

// A prefetch loads the memory at the home before the place of the entry is known.
BOOST_AUTO_TEST_CASE(an_entry_is_at_home_if_that_is_free_and_moves_home_when_it_becomes_free) {
    constexpr auto top = std::uint64_t{1} << 63;
    auto const with_home = [](std::uint64_t place) { return place << 24 | (place + 1); };
    auto const hash_is_key = [](entry const& e) { return e.key; };
    for (auto const first_half : {std::uint64_t{0}, top}) {
        table homes(0);
        auto const place_of = [&](std::uint64_t hash) {
            return homes.find(hash, [&](entry const& e) { return e.key == hash; }).place;
        };
        auto const insert = [&](std::uint64_t hash) {
            homes.insert(homes.make_room(hash, hash_is_key), hash, entry(hash, 0));
        };
        // Two for each even place, which the split separates: no entry has an odd home.
        for (std::uint64_t place = 0; place != table::places; place += 2)
            insert(with_home(place) | first_half);
        for (std::uint64_t place = 0; place != table::places; place += 2) {
            insert(with_home(place) | (first_half ^ top));
            BOOST_TEST(place_of(with_home(place) | first_half) == place);
            BOOST_TEST(place_of(with_home(place) | (first_half ^ top)) == place + 1);
        }
        static_cast<void>(homes.make_room(with_home(1), hash_is_key));
        BOOST_TEST_REQUIRE(homes.pages() == 2u);
        for (std::uint64_t place = 0; place != table::places; place += 2) {
            BOOST_TEST(place_of(with_home(place)) == place);
            BOOST_TEST(place_of(with_home(place) | top) == place);
        }

        // Eight stay in one page, and eight others in the other one.
        for (std::uint64_t place = 0; place != table::places; place += 2) {
            auto const goes = with_home(place) | (place % 4 == 0 ? 0 : top);
            homes.erase(homes.find(goes, [&](entry const& e) { return e.key == goes; }));
        }
        homes.tidy(first_half, [](auto const&, auto const&) { return true; });
        BOOST_TEST_REQUIRE(homes.pages() == 1u);
        for (std::uint64_t place = 0; place != table::places; place += 2)
            BOOST_TEST(place_of(with_home(place) | (place % 4 == 0 ? top : 0)) == place);
    }
}

BOOST_AUTO_TEST_CASE(needs_two_bytes_beside_each_entry_in_pages_that_are_69_percent_full) {
    struct plain {
        std::uint64_t words[3];
    };
    weir::detail::paged_table<plain, int> many(0);
    random_source random(1);
    auto const first_word = [](plain const& p) { return p.words[0]; };
    for (int i = 0; i != 200'000; ++i) {
        auto const hash = random.bits();
        many.insert(many.make_room(hash, first_word), hash, {{hash, 0, 0}});
    }
    BOOST_TEST(static_cast<double>(many.bytes()) / 200'000 < 42);
}

BOOST_AUTO_TEST_SUITE_END()
