#include <weir/detail/core_calls.hpp>
#include <weir/detail/room.hpp>
#include <weir/policy/seats.hpp>
#include <weir/policy/sliding_log.hpp>
#include <weir/policy/token_bucket.hpp>

#include "support/noted_host.hpp"
#include "support/printing.hpp"

#include <boost/test/unit_test.hpp>

#include <malloc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <new>
#include <vector>

// Checks how much work is done under the lock, and which actions never happen under it.

using support::noted_fifo;
using support::noted_host;
using support::sections;
using weir::amount;
using weir::duration;
using weir::errc;
using weir::error_code;
using weir::patience;
using weir::permit;
using weir::time_point;
using weir::detail::core;
using weir::detail::one_slot;
using weir::detail::operation;
using weir::detail::room;
using namespace std::chrono_literals;

namespace {

// The largest pieces of memory that were allocated and freed: under the lock, and at all.
struct memory {
    static inline std::size_t largest_under_lock = 0;
    static inline std::size_t largest = 0;

    static void note(void* piece) {
        auto const size = malloc_usable_size(piece);
        largest = std::max(largest, size);
        if (sections::open)
            largest_under_lock = std::max(largest_under_lock, size);
    }
    static void forget() { largest = largest_under_lock = 0; }
};

}  // namespace

// Not inline: g++ would report the malloc in one and the free in the other as a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
    if (void* const piece = std::malloc(size == 0 ? 1 : size)) {
        memory::note(piece);
        return piece;
    }
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* piece) noexcept {
    if (piece)
        memory::note(piece);
    std::free(piece);
}
[[gnu::noinline]] void operator delete(void* piece, std::size_t) noexcept {
    operator delete(piece);
}
// A sanitizer has its own versions of these, which would not call the functions above.
[[gnu::noinline]] void* operator new[](std::size_t size) {
    return operator new(size);
}
[[gnu::noinline]] void* operator new[](std::size_t size, std::nothrow_t const&) noexcept {
    return operator new(size);
}
[[gnu::noinline]] void operator delete[](void* piece) noexcept {
    operator delete(piece);
}
[[gnu::noinline]] void operator delete[](void* piece, std::size_t) noexcept {
    operator delete(piece);
}

namespace {

// A token bucket that counts how often it is asked.
class asked_bucket : public weir::policy::token_bucket {
    using rule = weir::policy::token_bucket;

public:
    using rule::rule;

    static inline std::uint64_t asked = 0;
    static inline std::uint64_t asked_in_section = 0;
    static inline std::uint64_t most_asked_in_section = 0;
    static inline std::uint64_t section = 0;

    static void forget() { asked = asked_in_section = most_asked_in_section = 0; }

    void take_over(asked_bucket& before, time_point now) { rule::take_over(before, now); }
    [[nodiscard]] time_point ready_at(amount n, amount ahead, time_point now) const noexcept {
        ++asked;
        if (std::exchange(section, sections::number) != sections::number)
            asked_in_section = 0;
        most_asked_in_section = std::max(most_asked_in_section, ++asked_in_section);
        return rule::ready_at(n, ahead, now);
    }
};

// A handler, reduced to the interface that the core uses.
class note final : public operation {
public:
    int posted = 0;
    int destroyed = 0;

    bool post() override {
        BOOST_TEST_REQUIRE(!sections::open);
        ++posted;
        result = error;
        captured.leave();
        return true;
    }
    void run() override {}
    void destroy() noexcept override {
        if (sections::open)
            std::abort();
        ++destroyed;
    }

    error_code result;
    permit captured;  // by the handler
};

constexpr int many = 400'000;

// The maximum number of operations that a step may touch under one lock, plus one for the caller's own operation.
constexpr std::uint64_t portion = 256 + 2;
// The number of further questions to the rule, to find out when the next work is due.
constexpr std::uint64_t once_in_a_while = 16;

// A rate of one per millisecond without free permits, and many waiting requests.
struct crowd {
    using core_type = core<room<one_slot<asked_bucket, noted_fifo>>, noted_host>;

    std::shared_ptr<core_type> bucket = core_type::create(
        {.rate = weir::rate{1000, 1s}, .burst = 1, .initial = 0}, {.max_waiting = 10'000'000});
    std::deque<note> notes;

    void join(int n, patience wait = weir::forever) {
        for (int i = 0; i != n; ++i) {
            auto& op = notes.emplace_back();
            op.count = 1;
            BOOST_TEST_REQUIRE(bucket->enter(op, {.length = wait}));
        }
    }

    static void forget() {
        sections::forget();
        asked_bucket::forget();
    }

    // Runs steps until nothing is due any more.
    static void work() { noted_host::run(); }

    ~crowd() {
        bucket->abandon();
        work();
    }
};

std::ptrdiff_t told(std::deque<note> const& notes, error_code ec) {
    return std::ranges::count_if(notes, [&](note const& n) {
        return n.posted == 1 && n.result == ec;
    });
}
std::ptrdiff_t waiting(std::deque<note> const& notes) {
    return std::ranges::count_if(notes, [](note const& n) { return n.posted == 0; });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(detail_core)

BOOST_FIXTURE_TEST_CASE(examines_many_requests_again_in_linear_time_and_short_sections, crowd) {
    for (int i = 0; i != many / 2; ++i) {
        join(1);
        join(1, 3600s);
    }
    work();
    forget();
    bucket->configure([](weir::token_bucket_options& o) { o.rate = weir::rate{1, 3600s}; });
    BOOST_TEST(sections::most_work <= 16U);  // the caller does not do the work for all
    work();
    // All but the first would have to wait longer than an hour; so half of them are rejected.
    BOOST_TEST(told(notes, errc::deadline_unreachable) == many / 2);
    BOOST_TEST(waiting(notes) == many / 2);
    BOOST_TEST(sections::most_work <= portion);
    BOOST_TEST(sections::all_work <= 2U * many);
    // Once for each, and once more for the retry time of each rejected one.
    BOOST_TEST(asked_bucket::most_asked_in_section <= 2 * portion + once_in_a_while);
    BOOST_TEST(asked_bucket::asked <= 3U * many);
}

BOOST_FIXTURE_TEST_CASE(examines_repeatedly_without_starting_at_the_head_each_time, crowd) {
    join(many);
    work();
    forget();
    bucket->configure([](weir::token_bucket_options& o) { o.rate = weir::rate{1, 1s}; });
    work();
    BOOST_TEST(waiting(notes) == many);  // none has to leave
    BOOST_TEST(sections::most_work <= portion);
    BOOST_TEST(sections::all_work <= 2U * many);
    BOOST_TEST(asked_bucket::asked <= 2U * many);
}

BOOST_FIXTURE_TEST_CASE(cancels_one_before_many_newcomers_in_short_sections, crowd) {
    join(1000);
    work();
    forget();
    bucket->cancel();
    join(many);
    work();
    BOOST_TEST(told(notes, boost::asio::error::operation_aborted) == 1000);
    BOOST_TEST(waiting(notes) == many);
    BOOST_TEST(sections::most_work <= portion);
    BOOST_TEST(sections::all_work <= 2U * many);
}

BOOST_FIXTURE_TEST_CASE(cancels_and_closes_many_requests_in_short_sections, crowd) {
    for (bool const close : {false, true}) {
        notes.clear();
        join(many, 1h);
        work();
        forget();
        close ? bucket->close() : bucket->cancel();
        BOOST_TEST(sections::most_work <= 16U);
        work();
        BOOST_TEST(waiting(notes) == 0);
        BOOST_TEST(sections::most_work <= portion);
        BOOST_TEST(sections::all_work <= 2U * many);
        BOOST_TEST(asked_bucket::asked <= 2U * many);
    }
}

BOOST_FIXTURE_TEST_CASE(expires_many_requests_in_short_sections, crowd) {
    bucket->configure([](weir::token_bucket_options& o) { o.rate = weir::rate{100, 1s}; });
    join(many, 2h);
    work();
    forget();
    noted_host::time += 3h;  // no thread ran the context meanwhile
    noted_host::run_to_timer();
    BOOST_TEST(told(notes, errc::timed_out) == many);
    BOOST_TEST(asked_bucket::most_asked_in_section <= 2 * portion + once_in_a_while);
    BOOST_TEST(asked_bucket::asked <= 3U * many);
}

BOOST_FIXTURE_TEST_CASE(serves_many_requests_in_short_sections, crowd) {
    join(many);
    work();
    forget();
    bucket->configure([](weir::token_bucket_options& o) {
        o.rate = weir::rate{1'000'000'000, 1s};
        o.burst = many;
    });
    for (int i = 0; waiting(notes) != 0; ++i) {
        BOOST_TEST_REQUIRE(i < 100);
        noted_host::run_to_timer();
    }
    BOOST_TEST(told(notes, {}) == many);
    BOOST_TEST(asked_bucket::most_asked_in_section <= 2 * portion + once_in_a_while);
    BOOST_TEST(asked_bucket::asked <= 4U * many);
}

BOOST_AUTO_TEST_CASE(allocates_and_frees_the_memory_of_a_large_policy_outside_the_lock) {
    using core_type = core<room<one_slot<weir::policy::seats>>, noted_host>;
    constexpr std::size_t large = 16'000'000;
    constexpr std::size_t small = 100'000;
    auto const watched = core_type::create({.seats = 10, .max_hold = 1h}, {});
    auto const kept = [&] {
        error_code ec;
        return watched->try_enter(5, ec);
    }();

    for (amount const seats : {1'000'000, 10, 2'000'000, 4'000'000, 100}) {
        memory::forget();
        watched->configure([&](weir::seats_options& o) { o.seats = seats; });
        BOOST_TEST(watched->options().seats == seats);
        if (seats >= 1'000'000)
            BOOST_TEST(memory::largest >= large);
        BOOST_TEST(memory::largest_under_lock < small);
    }
    BOOST_TEST(watched->remaining({}) == 95);
    memory::forget();
    watched->abandon();
    noted_host::run();
    BOOST_TEST(memory::largest_under_lock < small);
}

BOOST_AUTO_TEST_CASE(a_large_log_grows_by_small_pieces) {
    using core_type = core<room<one_slot<weir::policy::sliding_log>>, noted_host>;
    constexpr amount many = 300'000;
    auto const log = core_type::create({.limit = many, .window = 1h}, {});
    memory::forget();
    for (amount i = 0; i != many; ++i) {
        noted_host::time += 1ns;
        error_code ec;
        auto const call = log->try_enter(1, ec);
        BOOST_REQUIRE(call);
    }
    BOOST_TEST(memory::largest <= 16'400U);  // the addresses of 2,048 blocks
    log->abandon();
    noted_host::run();
}

// While the lock is held, the permit in a handler must not be released and the handler must not be destroyed. Here it
// is an error to lock twice, or to destroy under the lock.
BOOST_AUTO_TEST_CASE(destroys_no_object_of_its_users_under_the_lock) {
    for (bool const context_ends : {false, true}) {
        crowd c;
        c.join(300, 1h);
        for (auto& n : c.notes)
            n.captured = c.bucket->charge(1);
        if (context_ends)
            c.bucket->context_ends();
        else
            c.bucket->abandon();
        crowd::work();
        BOOST_TEST(c.bucket->stats().live == (context_ends ? 300U : 0U));
        for (auto& n : c.notes) {
            BOOST_TEST((context_ends ? n.destroyed : n.posted) == 1);
            n.captured.leave();
        }
        BOOST_TEST(c.bucket->stats().live == 0U);
    }
}

BOOST_AUTO_TEST_SUITE_END()
