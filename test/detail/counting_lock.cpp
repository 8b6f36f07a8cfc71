#include <weir/detail/counting_lock.hpp>
#include <weir/detail/room_lock.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

using weir::amount;
using weir::detail::counting_lock;
using weir::detail::counting_word;

BOOST_AUTO_TEST_SUITE(detail_counting_lock)

namespace {

// Permits that may be taken under the lock and without it. All members are used under the lock.
struct counted_room {
    [[nodiscard]] amount countable() const noexcept { return left; }
    void counted(amount n, std::uint64_t taken) noexcept {
        left -= n;
        grants += taken;
    }

    amount left = 0;
    std::uint64_t grants = 0;
};
using room_lock = weir::detail::counting_room_lock<counted_room, counting_lock>;

}  // namespace

BOOST_AUTO_TEST_CASE(a_new_lock_does_not_count) {
    counting_lock lock;
    BOOST_TEST(!lock.try_take());
    BOOST_TEST(!lock.try_put_back());
    BOOST_TEST(!lock.lock().counts());
    lock.unlock({});
}

BOOST_AUTO_TEST_CASE(counts_what_is_taken_and_put_back) {
    counting_lock lock;
    static_cast<void>(lock.lock());
    lock.unlock(counting_word::of(2));
    BOOST_TEST(lock.try_take());
    BOOST_TEST(lock.try_take());
    BOOST_TEST(!lock.try_take());
    BOOST_TEST(lock.try_put_back());
    BOOST_TEST(lock.try_take());
    auto const found = lock.lock();
    BOOST_TEST(found.counts());
    BOOST_TEST(found.left() == 0);
    BOOST_TEST(found.taken() == 3U);
    BOOST_TEST(!lock.try_take());
    BOOST_TEST(!lock.try_put_back());
    lock.unlock({});
    BOOST_TEST(!lock.try_put_back());
}

BOOST_AUTO_TEST_CASE(counts_permits_that_were_taken_under_the_lock) {
    counting_lock lock;
    static_cast<void>(lock.lock());
    lock.unlock(counting_word::of(0));
    BOOST_TEST(!lock.try_take());
    BOOST_TEST(lock.try_put_back());
    BOOST_TEST(lock.lock().left() == 1);
    lock.unlock({});
}

BOOST_AUTO_TEST_CASE(a_hold_takes_the_lock_only_to_count) {
    using weir::detail::counting;
    counted_room room{.left = 1};
    room_lock lock(room);
    BOOST_TEST(!lock.try_hold(counting::take));  // it does not count yet
    BOOST_TEST(!lock.try_hold(counting::put_back));
    lock.lock();
    lock.unlock_and_count();

    BOOST_TEST(lock.try_hold(counting::take));
    BOOST_TEST(!lock.try_take());
    BOOST_TEST(!lock.try_put_back());
    BOOST_TEST(!lock.try_hold(counting::put_back));
    lock.end_hold(counting::nothing);
    BOOST_TEST(lock.try_hold(counting::take));
    lock.end_hold(counting::take);
    BOOST_TEST(!lock.try_hold(counting::take));  // none is left
    BOOST_TEST(lock.try_hold(counting::put_back));
    lock.end_hold(counting::put_back);
    BOOST_TEST(lock.try_take());

    lock.lock();
    BOOST_TEST(room.left == 0);
    BOOST_TEST(room.grants == 2U);
    lock.unlock();
}

BOOST_AUTO_TEST_CASE(the_word_holds_all_its_numbers) {
    BOOST_TEST(!counting_word::of(-1).counts());
    auto const much = counting_word::of(weir::max_amount);
    BOOST_TEST(much.left() == (1 << 28) - 1);
    BOOST_TEST(much.taken() == 0U);

    // As many as fit may be put back.
    auto full = counting_word::of(weir::max_amount);
    for (std::uint64_t i = 0; i != 1U << 28; ++i)
        full = full.after_put_back();
    BOOST_TEST(full.left() == (1 << 29) - 1);
    BOOST_TEST(full.taken() == 0U);
    BOOST_TEST(!full.can_put_back());
    BOOST_TEST(full.can_take());

    // The number of taken permits does not overflow: then the lock is needed.
    counting_word const many(counting_word::of(5).get() | ((std::uint64_t(1) << 31) - 1) << 32);
    BOOST_TEST(many.can_take());
    auto const last = many.after_take();
    BOOST_TEST(last.taken() == std::uint64_t(1) << 31);
    BOOST_TEST(last.left() == 4);
    BOOST_TEST(!last.can_take());
    BOOST_TEST(last.can_put_back());
}

BOOST_AUTO_TEST_CASE(threads_take_each_permit_once) {
    constexpr int threads = 4;  // more than processors, so that some wait for the lock
    constexpr int rounds = 20'000;
    constexpr amount permits = 2;
    counted_room room{.left = permits};
    room_lock lock(room);
    std::atomic<amount> in_use = 0;
    std::atomic<bool> too_many = false;
    std::atomic<std::uint64_t> grants = 0;
    int guarded = 0;  // by the lock

    auto const take = [&](int round) {
        if (lock.try_take())
            return true;
        lock.lock();
        ++guarded;
        bool const free = room.left != 0;
        if (free) {
            --room.left;
            ++room.grants;
        }
        round % 3 == 0 ? lock.unlock() : lock.unlock_and_count();
        return free;
    };
    auto const put_back = [&] {
        if (lock.try_put_back())
            return;
        std::lock_guard const here(lock);
        ++guarded;
        ++room.left;
    };
    auto const work = [&] {
        for (int i = 0; i != rounds; ++i) {
            if (!take(i))
                continue;
            ++grants;
            if (++in_use > permits)
                too_many = true;
            --in_use;
            put_back();
        }
    };
    std::vector<std::thread> all;
    for (int i = 0; i != threads; ++i)
        all.emplace_back(work);
    for (auto& one : all)
        one.join();

    lock.lock();
    BOOST_TEST(!too_many);
    BOOST_TEST(room.left == permits);
    BOOST_TEST(room.grants == grants);
    BOOST_TEST(guarded > 0);
    lock.unlock();
}

BOOST_AUTO_TEST_SUITE_END()
