#include <weir/chain.hpp>
#include <weir/detail/chain/link_box.hpp>
#include <weir/keyed.hpp>
#include <weir/seats.hpp>

#include "support/allocations.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace asio = boost::asio;

BOOST_AUTO_TEST_SUITE(links_in_boxes)

namespace {

// A key of `size` bytes.
template <std::size_t size>
struct wide {
    std::array<std::uint64_t, size / sizeof(std::uint64_t)> parts{};
    friend bool operator==(wide const&, wide const&) = default;
};
struct by_first {
    template <class Key>
    std::uint64_t operator()(weir::hash_seed const&, Key const& key) const noexcept {
        return key.parts[0];
    }
};
template <std::size_t size>
using keyed_by = weir::basic_keyed<wide<size>, weir::policy::seats, asio::any_io_executor,
                                   weir::basic_steady_timer<asio::any_io_executor>, by_first>;

template <class Limiter>
std::size_t allocations_of(Limiter const& limiter) {
    support::allocation_count const made;
    weir::any_link const link = limiter;
    auto const copy = link;
    weir::any_chain door{copy, link};
    auto const turn = door.try_enter();
    auto const n = made();
    BOOST_TEST_REQUIRE(turn.size() == 2u);
    return n;
}

}  // namespace

BOOST_AUTO_TEST_CASE(need_no_allocation_for_keys_of_the_size_of_a_string) {
    asio::io_context ctx;
    weir::seats all{ctx, {.seats = 9}};
    BOOST_TEST(allocations_of(all) == 0u);
    constexpr auto size = sizeof(std::string);
    using string_sized = wide<size>;
    keyed_by<size> small{ctx, {.seats = 9}};
    static_cast<void>(small.try_enter(string_sized{}));
    BOOST_TEST(allocations_of(small.with(string_sized{})) == 0u);
    using wider = wide<size + sizeof(std::uint64_t)>;
    keyed_by<size + sizeof(std::uint64_t)> large{ctx, {.seats = 9}};
    static_cast<void>(large.try_enter(wider{}));
    BOOST_TEST(allocations_of(large.with(wider{})) == 1u);  // all copies share it
}

BOOST_AUTO_TEST_CASE(need_one_allocation_in_a_chain_of_more_limiters_than_it_has_space_for) {
    asio::io_context ctx;
    weir::seats all{ctx, {.seats = 9}};
    using chain_of_two = weir::basic_any_chain<asio::any_io_executor, 2>;
    for (std::size_t const n : {1u, 2u, 3u, 4u}) {
        weir::any_link const link = all;
        support::allocation_count const made;
        chain_of_two door;
        for (std::size_t i = 0; i != n; ++i)
            door.add(link);
        auto turn = door.try_enter();
        auto const allocations = made();
        BOOST_TEST(turn.size() == n);
        BOOST_TEST(allocations == (n <= 2 ? 0u : 1u));
    }
}

// The keys are long strings, so that AddressSanitizer sees a double free or a leak.
BOOST_AUTO_TEST_CASE(keep_their_contents_when_they_are_copied_moved_and_assigned) {
    asio::io_context ctx;
    weir::keyed<std::string, weir::policy::seats> per_name{ctx, {.seats = 1}};
    keyed_by<400> large{ctx, {.seats = 1}};
    auto const name = [](char c) { return std::string(100, c); };
    std::vector<weir::any_link> links;
    for (char const c : {'a', 'b', 'c'})
        links.emplace_back(per_name.with(name(c)));
    links.emplace_back(large.with(wide<400>{}));
    auto const copies = links;
    links[0] = copies[3];  // another kind
    links[3] = copies[0];
    links[1] = std::move(links[2]);
    auto& itself = links[0];
    links[0] = itself;
    weir::any_chain first{links[0]};
    weir::any_chain second;
    second = weir::any_chain{links[3], links[1]};
    links.clear();

    auto const one = first.try_enter();
    BOOST_TEST((one.size() == 1u && !large.try_enter(wide<400>{})));
    auto const two = second.try_enter();
    BOOST_TEST(two.size() == 2u);
    BOOST_TEST((!per_name.try_enter(name('a')) && per_name.try_enter(name('b')) &&
                !per_name.try_enter(name('c'))));
    weir::any_chain door{copies[1], copies[2]};
    BOOST_TEST((door.try_enter().rejected_by() == 1u));
}

BOOST_AUTO_TEST_SUITE_END()
